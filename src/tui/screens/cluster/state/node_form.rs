//! The state of the form for a new local node.

use model::node::Subgroup;
use model::selector::Selector;
use strum::{IntoStaticStr, VariantArray};

use crate::local::NodeOptions;
use crate::state::field::Field;
use crate::state::navigation::cycled;
use crate::state::nodes::Node;

/// Default number of slots.
const N_SLOTS_FIRST: &str = "10";

/// Field of the form. The serialized names are the labels.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, IntoStaticStr, VariantArray,
)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum NodeField {
    /// Role: head or worker.
    #[default]
    Role,
    /// Port at which the node accepts connections of other nodes.
    Port,
    /// Port of a head's REST API.
    #[strum(serialize = "REST port")]
    RestPort,
    /// Addresses of nodes to stay connected to.
    #[strum(serialize = "boot node")]
    BootNodes,
    /// Groups of the node in addition to the general group.
    Subgroups,
    /// Number of executions that the node runs concurrently.
    Slots,
    /// Attributes of a worker.
    Attributes,
    /// Directory of an external runtime, if the node does not use the built-in one.
    Runtime,
    /// True if the node continues to run when the screen closes.
    #[strum(serialize = "when I quit")]
    Kept,
}

#[derive(Debug, Default)]
pub(crate) struct NodeForm {
    /// Focused field.
    pub(crate) focus: NodeField,
    /// True for a head, false for a worker.
    pub(crate) is_head: bool,
    /// True if the node continues to run when the screen closes.
    pub(crate) is_detached: bool,
    texts: [Field; NodeField::VARIANTS.len()],
    /// True after an attempt to start the node. From then on, errors of fields are shown.
    pub(crate) is_tried: bool,
    /// Head's address that was filled in. Only one address is ever filled in.
    filled_in: Option<String>,
}

impl NodeField {
    /// Returns the hint that a field shows while it has no error.
    pub(crate) const fn note(self) -> &'static str {
        match self {
            Self::Role => "↑↓ worker or head",
            Self::Port => "for other nodes; empty picks a free port",
            Self::RestPort => "for HTTP callers; empty picks a free port",
            Self::BootNodes => "multiaddresses, comma-separated",
            Self::Subgroups => "comma-separated; empty for the general group only",
            Self::Slots => "concurrent executions",
            Self::Attributes => "NAME=VALUE, comma-separated; selectors choose workers by these",
            Self::Runtime => "a folder with bls-runtime; empty for the built-in one",
            Self::Kept => "↑↓ stops with the screen, or keeps running",
        }
    }

    /// Returns true if the field is a choice, false if it is a text.
    const fn is_choice(self) -> bool {
        matches!(self, Self::Role | Self::Kept)
    }
}

impl NodeForm {
    /// Returns a form with default values, and with the address of a head if `nodes` contains one.
    pub(crate) fn new(nodes: &[Node]) -> Self {
        let mut form = Self { is_head: nodes.is_empty(), ..Self::default() };
        form.set(NodeField::Slots, N_SLOTS_FIRST);
        form.learn(nodes);
        form
    }

    /// Fills in the address of a head among `nodes`, which can become known after the form is
    /// opened. Does so only once, and only into an empty field.
    pub(crate) fn learn(&mut self, nodes: &[Node]) {
        if self.filled_in.is_some() || !self.text(NodeField::BootNodes).value().is_empty() {
            return;
        }
        let head = nodes.iter().find(|node| node.role.as_deref() == Some("head"));
        // A local node can always reach the loopback address, so it is preferred.
        let address = head.and_then(|head| {
            let is_loopback = |address: &&String| address.contains("/127.0.0.1/");
            head.addresses.iter().find(is_loopback).or(head.addresses.first())
        });
        if let Some(address) = address {
            self.set(NodeField::BootNodes, address);
            self.filled_in = Some(address.clone());
        }
    }

    /// Returns the fields for the chosen role, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = NodeField> {
        let is_head = self.is_head;
        NodeField::VARIANTS.iter().copied().filter(move |field| match field {
            NodeField::RestPort => is_head,
            NodeField::Slots | NodeField::Attributes | NodeField::Runtime => !is_head,
            _ => true,
        })
    }

    /// Returns the text of a field.
    pub(crate) fn text(&self, field: NodeField) -> &Field {
        // Cannot fail, since the array has a text for each field.
        self.texts.get(field as usize).unwrap_or(&self.texts[0])
    }

    /// Returns the focused text field.
    pub(crate) fn field(&mut self) -> Option<&mut Field> {
        let field = self.focus;
        self.texts.get_mut(field as usize).filter(|_| !field.is_choice())
    }

    /// Moves the focus by `by` fields. The last field is followed by the first.
    pub(crate) fn move_focus(&mut self, by: isize) {
        let fields: Vec<NodeField> = self.fields().collect();
        let idx = fields.iter().position(|field| *field == self.focus);
        self.focus = fields.get(cycled(idx, by, fields.len())).copied().unwrap_or_default();
    }

    /// Moves a choice by `by` values. If a text has focus, moves the focus by `by` fields.
    pub(crate) fn choose(&mut self, by: isize) {
        match self.focus {
            NodeField::Role => self.is_head = !self.is_head,
            NodeField::Kept => self.is_detached = !self.is_detached,
            _ => self.move_focus(by),
        }
    }

    /// Returns the error of a field, or `None` if the field is valid.
    pub(crate) fn trouble(&self, field: NodeField) -> Option<String> {
        let text = self.text(field).value().trim();
        match field {
            NodeField::Port | NodeField::RestPort => {
                port(text).is_none().then(|| "a port, 1 to 65535".to_owned())
            }
            NodeField::BootNodes if !self.is_head && text.is_empty() => {
                Some("a worker needs a head's address".to_owned())
            }
            NodeField::BootNodes => parts(text)
                .find(|address| !address.starts_with('/') || !address.contains("/p2p/"))
                .map(|address| format!("`{address}` is not a multiaddress (/ip4/…/tcp/…/p2p/…)")),
            NodeField::Subgroups => parts(text)
                .find(|name| name.parse::<Subgroup>().is_err())
                .map(|name| format!("`{name}` is not a valid group name")),
            NodeField::Slots => {
                let is_fit = text.parse::<u32>().is_ok_and(|n| (1..=10_000).contains(&n));
                (!self.is_head && !is_fit).then(|| "a number from 1 to 10000".to_owned())
            }
            NodeField::Attributes => parts(text)
                .find(|pair| !is_attribute(pair))
                .map(|pair| format!("`{pair}` is not NAME=VALUE")),
            NodeField::Role | NodeField::Runtime | NodeField::Kept => None,
        }
    }

    /// Returns the options of the node to start. If a field is invalid, returns `None` and moves
    /// the focus to this field.
    pub(crate) fn options(&mut self) -> Option<NodeOptions> {
        self.is_tried = true;
        let unfit = self.fields().find(|field| self.trouble(*field).is_some());
        if let Some(unfit) = unfit {
            self.focus = unfit;
            return None;
        }
        let text = |field| self.text(field).value().trim();
        let all = |field| parts(text(field)).map(str::to_owned).collect();
        Some(NodeOptions {
            role: if self.is_head { "head" } else { "worker" }.to_owned(),
            port: port(text(NodeField::Port)).unwrap_or_default(),
            rest_port: port(text(NodeField::RestPort)).unwrap_or_default(),
            boot_nodes: all(NodeField::BootNodes),
            subgroups: all(NodeField::Subgroups),
            n_slots: text(NodeField::Slots).parse().unwrap_or(1),
            attributes: all(NodeField::Attributes),
            runtime: Some(text(NodeField::Runtime).to_owned()).filter(|path| !path.is_empty()),
            is_detached: self.is_detached,
        })
    }

    fn set(&mut self, field: NodeField, text: &str) {
        if let Some(place) = self.texts.get_mut(field as usize) {
            place.set(text);
        }
    }
}

/// Parses a port. Returns 0 for an empty text and `None` for an invalid one.
fn port(text: &str) -> Option<u16> {
    if text.is_empty() { Some(0) } else { text.parse().ok().filter(|port| *port > 0) }
}

/// Returns true if `text` has the form `NAME=VALUE` and is also valid as a selector, so a request can
/// select the attribute.
fn is_attribute(text: &str) -> bool {
    let is_same = |selector: Selector| selector.to_string() == text;
    text.contains('=') && !text.contains("!=") && text.parse().is_ok_and(is_same)
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;

    #[test]
    fn head_address_is_filled_in_and_ports_default_to_free_ports() {
        let screen = Harness::ready(160, 45);
        let nodes = screen.state.cluster.nodes(screen.state.cluster_context());
        let mut form = NodeForm::new(&nodes);
        let options = form.options().unwrap();
        assert_eq!((options.role.as_str(), options.port, options.n_slots), ("worker", 0, 10));
        assert_eq!(options.boot_nodes, nodes[0].addresses);
        assert!(!options.is_detached && options.runtime.is_none());
    }

    #[test]
    fn first_invalid_field_of_the_node_form_gets_the_focus() {
        let mut form = NodeForm::new(&[]);
        assert!(form.is_head && form.options().is_some(), "a head needs no boot node");
        form.is_head = false;
        assert_eq!((form.options(), form.focus), (None, NodeField::BootNodes));
        form.set(NodeField::BootNodes, "/ip4/1.2.3.4/tcp/5/p2p/12D3KooW, x");
        assert!(form.trouble(NodeField::BootNodes).unwrap().contains("`x`"));
        form.set(NodeField::BootNodes, "/ip4/1.2.3.4/tcp/5/p2p/12D3KooW");
        form.set(NodeField::Port, "70000");
        assert_eq!((form.options(), form.focus), (None, NodeField::Port));
        form.set(NodeField::Port, "9000");
        form.set(NodeField::Slots, "0");
        assert_eq!((form.options(), form.focus), (None, NodeField::Slots));
    }

    #[test]
    fn tab_key_skips_fields_of_the_node_form_that_do_not_apply_to_its_role() {
        let mut form = NodeForm::new(&[]);
        form.is_head = false;
        let n_fields = form.fields().count();
        for _ in 0..n_fields {
            assert_ne!(form.focus, NodeField::RestPort);
            form.move_focus(1);
        }
        assert_eq!(form.focus, NodeField::Role);
        form.choose(1);
        assert!(form.is_head && form.fields().all(|field| field != NodeField::Slots));
    }

    #[test]
    fn every_error_of_the_node_form_is_shown() {
        for (field, text, want) in [
            (NodeField::Port, "70000", "a port, 1 to 65535"),
            (NodeField::BootNodes, "", "a worker needs a head's address"),
            (NodeField::BootNodes, "head:1", "`head:1` is not a multiaddress"),
            (NodeField::Subgroups, "a b", "`a b` is not a valid group name"),
            (NodeField::Slots, "0", "a number from 1 to 10000"),
            (NodeField::Attributes, "zone=a,gpu", "`gpu` is not NAME=VALUE"),
            (NodeField::Attributes, "zone!=a", "`zone!=a` is not NAME=VALUE"),
        ] {
            let mut screen = Harness::ready(160, 45);
            screen.press("1 a");
            screen.state.cluster.node_form.set(field, text);
            screen.take_effects();
            screen.press("enter");
            let shown = screen.text();
            assert!(shown.contains(want), "{text:?}: `{want}` is not in\n{shown}");
            assert_eq!(screen.take_effects(), [], "{text:?} starts nothing");
        }
    }
}
