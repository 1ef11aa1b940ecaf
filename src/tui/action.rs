//! What a key can do: one list, and the words that help and footer use for it.

use crate::state::Screen;

/// A command of the key table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    // Everywhere.
    /// Shows a screen.
    Show(Screen),
    /// Opens or closes the help.
    Help,
    /// Goes back one step: overlay, filter, zoom.
    Back,
    /// Ends the program; asks first while a run is awaited, or a node that was started by hand runs.
    Quit,
    /// Ends the program, and leaves the nodes running that were started by hand.
    QuitKeeping,
    /// Cancels the run in view; twice in a row, ends the program.
    Interrupt,
    /// Stops the program until the shell brings it back.
    Suspend,
    /// Moves the focus to the next pane.
    NextPane,
    /// Moves the focus to the pane before.
    PreviousPane,
    /// Gives the focused pane the whole screen, or takes it back.
    Zoom,
    /// Reloads from the services.
    Refresh,
    /// Opens the form that runs a function.
    OpenForm,
    /// Copies what is selected.
    Copy,
    /// Chooses the form that what is selected is copied in.
    CopyAs,
    /// Opens the palette, or closes it.
    Palette,
    /// Labels everything that can be clicked, to be taken by a letter.
    Jump,
    /// Opens the choice of a theme.
    Themes,
    /// Opens the notices there were.
    Notices,
    /// Opens the choice of a profile.
    Profiles,
    /// Opens the form that takes an API key.
    EnterKey,
    /// Forgets the API key of a profile.
    ForgetKey,
    /// Moves the focus to the pane on the left.
    PaneLeft,
    /// Moves the focus to the pane below.
    PaneDown,
    /// Moves the focus to the pane above.
    PaneUp,
    /// Moves the focus to the pane on the right.
    PaneRight,
    /// Makes the focused pane narrower.
    Narrower,
    /// Makes the focused pane wider.
    Wider,
    /// Makes the focused pane shorter.
    Shorter,
    /// Makes the focused pane taller.
    Taller,
    /// Puts the panes back to where they stand by themselves.
    ResetLayout,
    /// Takes the mouse from the terminal, or gives it back.
    ToggleMouse,
    /// Redraws the whole screen.
    Redraw,
    /// Edits the filter of the focused list.
    Filter,

    // Lists.
    /// Selects the row above.
    Up,
    /// Selects the row below.
    Down,
    /// Selects the first row.
    First,
    /// Selects the last row.
    Last,
    /// Selects half a page up.
    HalfPageUp,
    /// Selects half a page down.
    HalfPageDown,
    /// Selects a page up.
    PageUp,
    /// Selects a page down.
    PageDown,
    /// Opens what is selected.
    Open,
    /// Sorts by the next column.
    Sort,
    /// Turns the order around.
    Reverse,

    // Cluster and Execute.
    /// Opens the form that starts a node on this machine.
    AddNode,
    /// Asks whether to stop the selected local process.
    StopProcess,
    /// Stops the selected process, after the question.
    StopNow,
    /// Starts the node that the form describes.
    StartNode,
    /// Runs the selected run again, or starts the selected process again.
    Again,
    /// Looks at the run before.
    OlderRun,
    /// Looks at the run after.
    NewerRun,
    /// Lists the forms that are kept.
    Presets,
    /// Keeps the form under a name.
    SavePreset,
    /// Removes what is selected.
    Remove,
    /// Shows stdout, stderr, or the whole answer.
    NextOutput,
    /// Shows JSON a member a line, or as it was written.
    Pretty,
    /// Moves the output to the left.
    OutputLeft,
    /// Moves the output to the right.
    OutputRight,
    /// Shows the output in the program that `PAGER` names.
    OpenPager,
    /// Marks a result group, for others to be compared with it.
    Mark,
    /// Shows how two result groups differ.
    Diff,

    // The form.
    /// Goes to the next field.
    NextField,
    /// Goes to the field before.
    PreviousField,
    /// Takes the next known value of a field.
    NextChoice,
    /// Takes the known value before.
    PreviousChoice,
    /// Runs the function.
    Run,
    /// Copies the request as a command line for curl.
    CopyCurl,

    // Live things.
    /// Stops taking in what is new, or catches up.
    Pause,
    /// Follows what is newest.
    Follow,

    // Data.
    /// Moves the crosshair, then the chart, into the past.
    Earlier,
    /// Moves the crosshair, then the chart, towards now.
    Later,
    /// Shows a shorter span; the resolution follows.
    ZoomIn,
    /// Shows a longer span; the resolution follows.
    ZoomOut,
    /// Takes a coarser resolution.
    Coarser,
    /// Takes a finer resolution.
    Finer,
    /// Draws candles, a line, or smoothed candles.
    NextChart,
    /// Shows or hides indicators.
    Indicators,
    /// Acquires the public tag.
    AcquireTag,
    /// Charts the next column of numbers.
    NextColumn,
    /// Shows rows as numbers.
    RowsTable,
    /// Edits the one field of metadata that the list is filtered by.
    MetadataFilter,
    /// Watches what is selected, or no longer.
    Pin,
    /// Writes what is shown to a file.
    Export,

    // Inference.
    /// Shows the next topic.
    NextTopic,
    /// Shows the label before.
    PreviousLabel,
    /// Shows the next label.
    NextLabel,
    /// Leaves outliers out of the bundle, or does not.
    Resistant,
    /// Shows influence, leave-outs or losses of the actors.
    LeaveOuts,
    /// Asks the service less often.
    AskLess,
    /// Asks the service more often.
    AskMore,

    // Logs.
    /// Shows lower log level.
    LowerLevel,
    /// Shows higher log level.
    HigherLevel,
    /// Shows the lines of one source, in turn.
    NextSource,
    /// Goes to the next line that fits what was searched for.
    NextMatch,
    /// Goes to the line before that fits.
    PreviousMatch,
    /// Breaks long lines, or cuts them.
    Wrap,
    /// Shows times, or not.
    Times,
}

/// The name of a variant as files write it: `Show(Cluster)` is `show-cluster`.
pub(crate) fn kebab(variant: &str) -> String {
    let mut text = String::new();
    for letter in variant.chars().filter(|letter| letter.is_alphanumeric()) {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

impl Action {
    /// What a file of keys calls it: `next-pane`, `show-data`.
    #[must_use]
    pub fn name(self) -> String {
        kebab(&format!("{self:?}"))
    }

    /// Whether it is a step within what is in view, which means nothing from elsewhere.
    #[must_use]
    pub const fn is_step(self) -> bool {
        matches!(
            self,
            Self::Palette
                | Self::Interrupt
                | Self::Back
                | Self::Up
                | Self::Down
                | Self::First
                | Self::Last
                | Self::HalfPageUp
                | Self::HalfPageDown
                | Self::PageUp
                | Self::PageDown
                | Self::Open
                | Self::NextField
                | Self::PreviousField
                | Self::NextChoice
                | Self::PreviousChoice
                | Self::Show(_)
        )
    }

    /// What it does, as the help says it.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "a table, a line for each")]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Show(Screen::Cluster) => "cluster",
            Self::Show(Screen::Execute) => "execute",
            Self::Show(Screen::Data) => "data",
            Self::Show(Screen::Inference) => "inference",
            Self::Show(Screen::Logs) => "logs",
            Self::Show(Screen::Overview) => "overview",
            Self::Help => "this help",
            Self::Back => "back one step",
            Self::Quit => "quit (asks while work is running)",
            Self::QuitKeeping => "quit, and leave added nodes running",
            Self::Interrupt => "cancel the run; twice: quit now",
            Self::Suspend => "suspend",
            Self::NextPane => "next pane",
            Self::PreviousPane => "previous pane",
            Self::Zoom => "zoom pane",
            Self::Refresh => "refresh now",
            Self::OpenForm => "execute a function",
            Self::Copy => "copy the selection",
            Self::CopyAs => "copy as id, JSON, CSV or curl",
            Self::Palette => "command palette",
            Self::Jump => "jump to a label",
            Self::Themes => "theme",
            Self::Notices => "notices",
            Self::Profiles => "profile",
            Self::EnterKey => "API key",
            Self::ForgetKey => "remove the API key",
            Self::PaneLeft => "pane on the left",
            Self::PaneDown => "pane below",
            Self::PaneUp => "pane above",
            Self::PaneRight => "pane on the right",
            Self::Narrower => "narrower pane",
            Self::Wider => "wider pane",
            Self::Shorter => "shorter pane",
            Self::Taller => "taller pane",
            Self::ResetLayout => "reset layout",
            Self::ToggleMouse => "mouse on / off (shift-drag selects)",
            Self::Redraw => "redraw",
            Self::Filter => "filter",
            Self::Up => "up",
            Self::Down => "down",
            Self::First => "first",
            Self::Last => "last",
            Self::HalfPageUp => "half a page up",
            Self::HalfPageDown => "half a page down",
            Self::PageUp => "page up",
            Self::PageDown => "page down",
            Self::Open => "open",
            Self::Sort => "sort by the next column",
            Self::Reverse => "reverse the order",
            Self::AddNode => "add a node on this machine",
            Self::StopProcess => "stop the local process",
            Self::StopNow => "stop it",
            Self::StartNode => "start the node",
            Self::Again => "repeat the run / restart the process",
            Self::OlderRun => "older run",
            Self::NewerRun => "newer run",
            Self::Presets => "presets",
            Self::SavePreset => "save as a preset",
            Self::Remove => "remove",
            Self::NextOutput => "stdout / stderr / raw JSON",
            Self::Pretty => "JSON formatted / raw",
            Self::OutputLeft => "scroll output left",
            Self::OutputRight => "scroll output right",
            Self::OpenPager => "output in $PAGER",
            Self::Mark => "mark the group to compare with",
            Self::Diff => "compare two result groups",
            Self::NextField => "next field",
            Self::PreviousField => "previous field",
            Self::NextChoice => "next known value",
            Self::PreviousChoice => "previous known value",
            Self::Run => "run",
            Self::CopyCurl => "copy as curl",
            Self::Pause => "pause / resume",
            Self::Follow => "follow the newest",
            Self::Earlier => "move the crosshair left",
            Self::Later => "move the crosshair right",
            Self::ZoomIn => "zoom in (resolution follows)",
            Self::ZoomOut => "zoom out (resolution follows)",
            Self::Coarser => "coarser resolution",
            Self::Finer => "finer resolution",
            Self::NextChart => "candles / line / heikin",
            Self::Indicators => "averages / exponential / bands / none",
            Self::AcquireTag => "acquire the tag public",
            Self::NextColumn => "chart the next column",
            Self::RowsTable => "rows as a table",
            Self::MetadataFilter => "filter by one field of metadata",
            Self::Pin => "pin / unpin",
            Self::Export => "export to a file",
            Self::NextTopic => "next topic",
            Self::PreviousLabel => "previous label",
            Self::NextLabel => "next label",
            Self::Resistant => "with / without outliers",
            Self::LeaveOuts => "influence / leave-outs / losses",
            Self::AskLess => "poll less often",
            Self::AskMore => "poll more often",
            Self::LowerLevel => "lower log level",
            Self::HigherLevel => "higher log level",
            Self::NextSource => "next log source",
            Self::NextMatch => "next match",
            Self::PreviousMatch => "previous match",
            Self::Wrap => "wrap long lines",
            Self::Times => "times on / off",
        }
    }
}
