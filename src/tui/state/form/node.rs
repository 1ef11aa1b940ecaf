//! The form that starts a node on this machine.

use model::node::Subgroup;
use model::selector::Selector;

use super::{Form, FormField, Purpose};
use crate::local::NodeOptions;
use crate::state::nodes::Node;

/// Label of the field with the addresses of nodes to stay connected to.
pub(crate) const BOOT_NODE: &str = "boot node";

/// Roles of a node. Each has its own fields.
const ROLES: &[&str] = &["worker", HEAD];

/// Role of a head.
const HEAD: &str = "head";

/// Problem of an invalid port.
const PORT_PROBLEM: &str = "a port, 1 to 65535";

/// What happens to the node when the screen closes.
const ENDS: &[&str] = &["it stops", "it keeps running"];

/// Returns a form with default values, and with the address of a head if `nodes` contains one.
pub(crate) fn form(nodes: &[Node]) -> Form {
    let role = if nodes.is_empty() { HEAD } else { ROLES[0] };
    let purpose = Purpose::AddNode { has_address: false };
    let role = FormField::choice("role", "↑↓ worker or head", ROLES, role);
    let mut form = Form::new(purpose, "", "Start", vec![role]);
    rebuild(&mut form);
    learn(&mut form, nodes);
    form
}

/// Replaces the fields by those of the chosen role. Texts of fields that both roles have remain.
pub(super) fn rebuild(form: &mut Form) {
    let role = form.value("role").to_owned();
    let is_head = role == HEAD;
    let field = |label, hint| FormField::new(label, hint, form.value(label));
    let is_address = |text: &str| text.starts_with('/') && text.contains("/p2p/");
    let problem = "is not a multiaddress (/ip4/…/tcp/…/p2p/…)";
    let boot = field(BOOT_NODE, "multiaddresses, comma-separated").each_if(is_address, problem);
    let kept = Some(form.value("when I quit")).filter(|kept| !kept.is_empty());
    let slots = Some(form.value("slots")).filter(|slots| !slots.is_empty()).unwrap_or("10");
    let mut fields = vec![
        FormField::choice("role", "↑↓ worker or head", ROLES, &role),
        field("port", "for other nodes; empty picks a free port").valid_if(is_port, PORT_PROBLEM),
    ];
    if is_head {
        let hint = "for HTTP callers; empty picks a free port";
        fields.push(field("REST port", hint).valid_if(is_port, PORT_PROBLEM));
    }
    fields.push(if is_head { boot } else { boot.required() });
    let hint = "comma-separated; empty for the general group only";
    let is_group = |name: &str| name.parse::<Subgroup>().is_ok();
    fields.push(field("subgroups", hint).each_if(is_group, "is not a valid group name"));
    if !is_head {
        let hint = "NAME=VALUE, comma-separated; selectors choose workers by these";
        let is_number = |text: &str| text.parse::<u32>().is_ok_and(|n| (1..=10_000).contains(&n));
        fields.extend([
            FormField::new("slots", "concurrent executions", slots)
                .required()
                .valid_if(is_number, "a number from 1 to 10000"),
            // Attributes must also be valid as selectors, so that a request can select them.
            field("attributes", hint).each_if(Selector::can_name, "is not NAME=VALUE"),
            field("runtime", "a folder with bls-runtime; empty for the built-in one"),
        ]);
    }
    let hint = "↑↓ stops with the screen, or keeps running";
    fields.push(FormField::choice("when I quit", hint, ENDS, kept.unwrap_or(ENDS[0])));
    form.fields = fields;
    form.title = format!("Start a {role}");
}

/// Fills in the address of a head among `nodes`, which can become known after the form is opened. Does
/// so only once, and only into an empty field.
pub(crate) fn learn(form: &mut Form, nodes: &[Node]) {
    let Purpose::AddNode { has_address: has_address @ false } = &mut form.purpose else { return };
    let field = form.fields.iter_mut().find(|field| field.label == BOOT_NODE);
    let Some(field) = field.filter(|field| field.text.value().is_empty()) else { return };
    let head = nodes.iter().find(|node| node.role.as_deref() == Some(HEAD));
    // A local node can always reach the loopback address, so it is preferred.
    let address = head.and_then(|head| {
        let is_loopback = |address: &&String| address.contains("/127.0.0.1/");
        head.addresses.iter().find(is_loopback).or(head.addresses.first())
    });
    if let Some(address) = address {
        field.text.set(address);
        *has_address = true;
    }
}

/// Returns the options of the node to start.
pub(crate) fn options(form: &Form) -> NodeOptions {
    let port = |label| form.value(label).parse().unwrap_or_default();
    NodeOptions {
        role: form.value("role").to_owned(),
        port: port("port"),
        rest_port: port("REST port"),
        boot_nodes: form.values(BOOT_NODE),
        subgroups: form.values("subgroups"),
        n_slots: form.value("slots").parse().unwrap_or(1),
        attributes: form.values("attributes"),
        runtime: Some(form.value("runtime").to_owned()).filter(|path| !path.is_empty()),
        is_detached: form.value("when I quit") == ENDS[1],
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;
    use crate::state::overlay::Overlay;

    fn set(form: &mut Form, label: &str, text: &str) {
        let field = form.fields.iter_mut().find(|field| field.label == label);
        field.unwrap().text.set(text);
    }

    /// Returns the label of the focused field after an attempt to submit the form, or `None` if the
    /// form is valid.
    fn invalid(form: &mut Form) -> Option<&'static str> {
        (!form.is_valid()).then(|| form.fields[form.focus].label)
    }

    #[test]
    fn head_address_is_filled_in_and_ports_default_to_free_ports() {
        let screen = Harness::ready(160, 45);
        let nodes = screen.state.cluster.nodes(screen.state.cluster_context());
        let options = options(&form(&nodes));
        assert_eq!((options.role.as_str(), options.port, options.n_slots), ("worker", 0, 10));
        assert_eq!(options.boot_nodes, nodes[0].addresses);
        assert!(!options.is_detached && options.runtime.is_none());
    }

    #[test]
    fn first_invalid_field_of_the_node_form_gets_the_focus() {
        let mut form = form(&[]);
        assert_eq!(form.value("role"), "head");
        assert_eq!(invalid(&mut form), None, "a head needs no boot node");
        form.choose(1);
        assert_eq!(invalid(&mut form), Some(BOOT_NODE));
        set(&mut form, BOOT_NODE, "/ip4/1.2.3.4/tcp/5/p2p/12D3KooW, x");
        assert_eq!(invalid(&mut form), Some(BOOT_NODE));
        set(&mut form, BOOT_NODE, "/ip4/1.2.3.4/tcp/5/p2p/12D3KooW");
        set(&mut form, "port", "70000");
        assert_eq!(invalid(&mut form), Some("port"));
        set(&mut form, "port", "9000");
        set(&mut form, "slots", "0");
        assert_eq!(invalid(&mut form), Some("slots"));
    }

    #[test]
    fn tab_key_skips_fields_of_the_node_form_that_do_not_apply_to_its_role() {
        let mut form = form(&[]);
        set(&mut form, "port", "9000");
        form.choose(1);
        for _ in 0..form.fields.len() {
            assert_ne!(form.fields[form.focus].label, "REST port");
            form.move_focus(1);
        }
        assert_eq!((form.focus, form.value("port")), (0, "9000"));
        form.choose(1);
        assert!(form.fields.iter().all(|field| field.label != "slots"));
    }

    #[test]
    fn every_error_of_the_node_form_is_shown() {
        for (label, text, want) in [
            ("port", "70000", "a port, 1 to 65535"),
            (BOOT_NODE, "", "the boot node is missing"),
            (BOOT_NODE, "head:1", "`head:1` is not a multiaddress"),
            ("subgroups", "a b", "`a b` is not a valid group name"),
            ("slots", "0", "a number from 1 to 10000"),
            ("attributes", "zone=a,gpu", "`gpu` is not NAME=VALUE"),
            ("attributes", "zone!=a", "`zone!=a` is not NAME=VALUE"),
        ] {
            let mut screen = Harness::after("1 a");
            let Some(Overlay::Form(form)) = screen.state.overlays.last_mut() else { panic!() };
            set(form, label, text);
            screen.take_effects();
            screen.press("enter");
            screen.shows(&[want]);
            assert_eq!(screen.take_effects(), [], "{text:?} starts nothing");
        }
    }
}
