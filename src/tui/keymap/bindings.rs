//! The key bindings in force: the table of keys, changed by the user's key file.

use std::collections::HashSet;

use strum::VariantArray as _;

use super::{Chord, Layer, Resolved, default_rows, sequence};
use crate::keymap::Action;
use crate::user_file::{Fault, Setting};
use crate::widget::symbols::Symbols;

/// Keys that do not reach the program, since terminals and multiplexers intercept them.
const RESERVED: [&str; 7] = ["ctrl-a", "ctrl-b", "ctrl-h", "ctrl-i", "ctrl-j", "ctrl-m", "ctrl-q"];

/// Value in a key file that unbinds a key.
const NOTHING: &str = "none";

/// Keys that perform an action in a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    /// Layer of the binding.
    pub(crate) layer: Layer,
    /// Alternative key sequences. Each consists of one or more presses.
    pub(crate) sequences: Vec<Vec<Chord>>,
    /// Action of the keys.
    pub(crate) action: Action,
    /// Hint in the footer. Empty if the footer does not list the action.
    pub(crate) hint: &'static str,
}

/// All key bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keymap {
    bindings: Vec<Bound>,
    /// Symbols that the terminal's font contains. Without symbols of keys, names are displayed.
    symbols: Symbols,
}

impl Default for Keymap {
    fn default() -> Self {
        let bindings = default_rows().map(|(layer, (_, keys, action, hint))| {
            let sequences = keys.iter().filter_map(|keys| sequence(keys)).collect();
            Bound { layer, sequences, action, hint }
        });
        Self { bindings: bindings.collect(), symbols: Symbols::default() }
    }
}

impl Keymap {
    /// Returns the default bindings, changed by `overrides`. In an override, the table is the name of a
    /// layer, the name is a sequence of key presses separated by spaces, and the value is the name of an
    /// action or `none`.
    ///
    /// # Errors
    /// A [`Fault`] for every invalid override.
    pub fn with_overrides(overrides: &[Setting]) -> Result<Self, Vec<Fault>> {
        let mut keymap = Self::default();
        let mut faults = Vec::new();
        let mut taken: Vec<(usize, Layer, Vec<Chord>)> = Vec::new();
        for entry in overrides {
            let line = entry.line;
            match keymap.follow(entry) {
                Ok((layer, keys)) if taken.iter().any(|(_, l, k)| (*l, k) == (layer, &keys)) => {
                    let why = format!("`{}` is bound twice in [{}]", entry.name, entry.table);
                    faults.push(Fault { line, why });
                }
                Ok((layer, keys)) => taken.push((line, layer, keys)),
                Err(why) => faults.push(Fault { line, why }),
            }
        }
        for (line, layer, keys) in taken {
            faults.extend(keymap.hidden(layer, &keys).map(|why| Fault { line, why }));
        }
        faults.sort_by_key(|fault| fault.line);
        if faults.is_empty() { Ok(keymap) } else { Err(faults) }
    }

    /// Returns the same bindings, displayed with `symbols`.
    #[must_use]
    pub fn with_symbols(self, symbols: Symbols) -> Self {
        Self { symbols, ..self }
    }

    /// Returns key presses for display: `g g`, `^R`, `⏎`, or `enter` without symbols.
    pub(crate) fn sequence_text(&self, sequence: &[Chord]) -> String {
        let press = |chord: &Chord| match self.symbols {
            Symbols::Ascii => format!("{chord:#}"),
            Symbols::Braille | Symbols::Blocks => chord.to_string(),
        };
        sequence.iter().map(press).collect::<Vec<_>>().join(" ")
    }

    /// Returns all keys of `binding` for display.
    pub(crate) fn keys_text(&self, binding: &Bound) -> String {
        let keys: Vec<String> = binding.sequences.iter().map(|it| self.sequence_text(it)).collect();
        keys.join("  ")
    }

    /// Returns the first key of `binding` for display.
    pub(crate) fn first_key_text(&self, binding: &Bound) -> String {
        binding.sequences.first().map(|keys| self.sequence_text(keys)).unwrap_or_default()
    }

    /// Returns the first key of `action` in `layer` for display, or `None` if it has no key.
    pub(crate) fn key_of(&self, layer: Layer, action: Action) -> Option<String> {
        let is_it = |it: &&Bound| (it.layer, it.action) == (layer, action);
        self.bindings
            .iter()
            .filter(is_it)
            .find(|it| !it.sequences.is_empty())
            .map(|it| self.first_key_text(it))
    }

    /// Returns the first key of `action` in `layer` for display. If there is no key, returns the
    /// text that finds the action in the palette.
    pub(crate) fn key_text(&self, layer: Layer, action: Action) -> String {
        self.key_of(layer, action).unwrap_or_else(|| format!(":{}", action.title()))
    }

    /// Returns all bindings, in the order of the table.
    pub(crate) fn bindings(&self) -> &[Bound] {
        &self.bindings
    }

    /// Resolves the press `chord` after the presses `pending`. If several of `layers` bind the sequence,
    /// the first layer wins.
    pub(crate) fn resolve(&self, layers: &[Layer], pending: &[Chord], chord: Chord) -> Resolved {
        let mut is_start = false;
        for layer in layers {
            for (action, sequence) in self.sequences_of(*layer) {
                let Some((last, before)) = sequence.split_last() else { continue };
                if before == pending && *last == chord {
                    return Resolved::Action(action);
                }
                is_start |= sequence.len() > pending.len() + 1
                    && sequence.starts_with(pending)
                    && sequence.get(pending.len()) == Some(&chord);
            }
        }
        if is_start { Resolved::Pending } else { Resolved::Nothing }
    }

    /// Returns the keys that complete a sequence after the presses `pending`, with their actions.
    pub(crate) fn continuations(
        &self,
        layers: &[Layer],
        pending: &[Chord],
    ) -> Vec<(String, Action)> {
        let all = layers.iter().flat_map(|layer| self.sequences_of(*layer));
        let longer = all.filter_map(|(action, sequence)| match sequence.strip_prefix(pending) {
            Some(rest) if !rest.is_empty() => Some((self.sequence_text(rest), action)),
            _ => None,
        });
        longer.collect()
    }

    /// Returns the bindings of `layers`, except for bindings with keys that are all bound in an
    /// earlier layer.
    pub(crate) fn in_force(&self, layers: &[Layer]) -> Vec<&Bound> {
        let mut taken: Vec<&[Chord]> = Vec::new();
        let mut bindings = Vec::new();
        for layer in layers {
            let layer = self.bindings.iter().filter(|binding| binding.layer == *layer);
            let is_open = |binding: &&Bound| {
                !binding.sequences.iter().all(|keys| taken.contains(&keys.as_slice()))
            };
            let open: Vec<_> = layer.filter(is_open).collect();
            taken.extend(open.iter().flat_map(|binding| &binding.sequences).map(Vec::as_slice));
            bindings.extend(open);
        }
        bindings
    }

    fn sequences_of(&self, layer: Layer) -> impl Iterator<Item = (Action, &[Chord])> {
        let bindings = self.bindings.iter().filter(move |binding| binding.layer == layer);
        bindings.flat_map(|it| it.sequences.iter().map(|keys| (it.action, keys.as_slice())))
    }

    /// Applies `entry` of a key file. Returns its layer and keys.
    fn follow(&mut self, entry: &Setting) -> Result<(Layer, Vec<Chord>), String> {
        let layer = layer_named(&entry.table)?;
        let keys = keys_named(&entry.name, layer)?;
        let action = match entry.value.as_str() {
            NOTHING => None,
            name => Some(action_named(name, layer)?),
        };
        for binding in self.bindings.iter_mut().filter(|binding| binding.layer == layer) {
            binding.sequences.retain(|bound| *bound != keys);
        }
        let is_it = |it: &&mut Bound| (it.layer, Some(it.action)) == (layer, action);
        match (self.bindings.iter_mut().find(is_it), action) {
            // Inserted as the first key, which hints and the palette show.
            (Some(binding), _) => binding.sequences.insert(0, keys.clone()),
            (None, Some(action)) => {
                self.bindings.push(Bound {
                    layer,
                    sequences: vec![keys.clone()],
                    action,
                    hint: "",
                });
            }
            (None, None) => {}
        }
        Ok((layer, keys))
    }

    /// Returns an error text if `keys` is the start of another sequence that can be active together
    /// with `layer`, or if such a sequence is the start of `keys`.
    fn hidden(&self, layer: Layer, keys: &[Chord]) -> Option<String> {
        let is_bound = self.sequences_of(layer).any(|(_, bound)| bound == keys);
        let chains = Layer::VARIANTS.iter().map(|first| first.chain());
        for other in chains.filter(|chain| is_bound && chain.contains(&layer)).flatten() {
            for (action, bound) in self.sequences_of(other) {
                if bound != keys && (bound.starts_with(keys) || keys.starts_with(bound)) {
                    let (keys, bound) = (self.sequence_text(keys), self.sequence_text(bound));
                    return Some(format!(
                        "`{keys}` and `{bound}` of [{}], {}, begin with the same keys: unbind one of them with \
                         \"{NOTHING}\"",
                        other.into_str(),
                        action.name(),
                    ));
                }
            }
        }
        None
    }
}

/// Returns the default bindings as a key file.
#[must_use]
pub fn defaults_text() -> String {
    let mut text = String::from(
        "# The default key bindings. Lines of keymap.toml in the configuration directory override these;\n\
         # \"none\" unbinds a key. Keys of a sequence are separated by spaces.\n",
    );
    let mut section = None;
    for (layer, (_, keys, action, _)) in default_rows() {
        if section.replace(layer) != Some(layer) {
            text.extend(["\n[", layer.into_str(), "]\n"]);
        }
        for keys in keys {
            text.extend(["\"", keys, "\" = \"", &action.name(), "\" # ", action.title(), "\n"]);
        }
    }
    text
}

fn layer_named(name: &str) -> Result<Layer, String> {
    name.parse().map_err(|_| {
        let names: Vec<_> = Layer::VARIANTS.iter().map(Layer::into_str).collect();
        format!("unknown layer [{name}], expected one of {}", names.join(", "))
    })
}

fn keys_named(text: &str, layer: Layer) -> Result<Vec<Chord>, String> {
    let word = text.split(' ').find(|word| Chord::named(word).is_none());
    if let Some(word) = word {
        return Err(format!(
            "`{word}` is not a key, expected a letter, enter, esc, tab, space, up, pgdn, f2, ctrl-x or alt-x"
        ));
    }
    let keys = sequence(text).unwrap_or_default();
    let is_reserved = |name: &&&str| Chord::named(name).is_some_and(|chord| keys.contains(&chord));
    if let Some(reserved) = RESERVED.iter().find(is_reserved) {
        return Err(format!(
            "`{reserved}` is intercepted by terminals or multiplexers: use another key"
        ));
    }
    let interrupt = Chord::named("ctrl-c");
    if keys.iter().any(|chord| Some(*chord) == interrupt) {
        return Err("`ctrl-c` always cancels and quits: use another key".to_owned());
    }
    if layer.is_typed() && keys.first().is_some_and(|chord| chord.letter().is_some()) {
        return Err(format!(
            "`{text}` is typed as text in [{}]: use a key with ctrl or alt, or a key without a letter",
            layer.into_str()
        ));
    }
    Ok(keys)
}

fn action_named(name: &str, layer: Layer) -> Result<Action, String> {
    // The action of this layer is found before a global action of the same name.
    let of = |layer: Layer| default_rows().filter(move |(it, _)| *it == layer);
    let offered = [layer, Layer::Always, Layer::Global].into_iter().flat_map(of);
    let mut seen = HashSet::new();
    let actions = offered.map(|(_, row)| row.2).filter(|action| seen.insert(*action));
    let actions: Vec<Action> = actions.collect();
    if let Some(action) = actions.iter().find(|action| action.name() == name) {
        return Ok(*action);
    }
    let names: Vec<String> = actions.iter().map(|action| action.name()).collect();
    Err(format!(
        "[{}] has no action `{name}`, expected one of {}",
        layer.into_str(),
        names.join(", ")
    ))
}
