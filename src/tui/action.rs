//! What a key can do: one list, and the words that help and footer use for it.

use strum::IntoStaticStr;

use crate::screens::Screen;

/// The table of actions: each with what it does, as the help says it.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident => $title:literal,)*) => {
        /// A command of the key table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
        #[strum(serialize_all = "kebab-case")]
        pub enum Action {
            /// Shows a screen.
            Show(Screen),
            $($(#[$doc])* $name,)*
        }

        impl Action {
            /// What it does, as the help says it.
            pub(crate) const fn title(self) -> &'static str {
                match self {
                    Self::Show(screen) => screen.title(),
                    $(Self::$name => $title,)*
                }
            }
        }
    };
}

actions! {
    // Everywhere.
    /// Opens or closes the help.
    Help => "this help",
    /// Goes back one step: overlay, filter, zoom.
    Back => "back one step",
    /// Ends the program; asks first while a run is awaited, or a node that was started by hand runs.
    Quit => "quit (asks while work is running)",
    /// Ends the program, and leaves the nodes running that were started by hand.
    QuitKeeping => "quit, and leave added nodes running",
    /// Cancels the run in view; twice in a row, ends the program.
    Interrupt => "cancel the run; twice: quit now",
    /// Stops the program until the shell brings it back.
    Suspend => "suspend",
    /// Moves the focus to the next pane.
    NextPane => "next pane",
    /// Moves the focus to the pane before.
    PreviousPane => "previous pane",
    /// Gives the focused pane the whole screen, or takes it back.
    Zoom => "zoom pane",
    /// Reloads from the services.
    Refresh => "refresh now",
    /// Opens the form that runs a function.
    OpenForm => "execute a function",
    /// Copies what is selected.
    Copy => "copy the selection",
    /// Chooses the form that what is selected is copied in.
    CopyAs => "copy as id, JSON, CSV or curl",
    /// Opens the palette, or closes it.
    Palette => "command palette",
    /// Labels everything that can be clicked, to be taken by a letter.
    Jump => "jump to a label",
    /// Opens the choice of a theme.
    Themes => "theme",
    /// Opens the notices there were.
    Notices => "notices",
    /// Opens the choice of a profile.
    Profiles => "profile",
    /// Opens the form that takes an API key.
    EnterKey => "API key",
    /// Forgets the API key of a profile.
    ForgetKey => "remove the API key",
    /// Moves the focus to the pane on the left.
    PaneLeft => "pane on the left",
    /// Moves the focus to the pane below.
    PaneDown => "pane below",
    /// Moves the focus to the pane above.
    PaneUp => "pane above",
    /// Moves the focus to the pane on the right.
    PaneRight => "pane on the right",
    /// Makes the focused pane narrower.
    Narrower => "narrower pane",
    /// Makes the focused pane wider.
    Wider => "wider pane",
    /// Makes the focused pane shorter.
    Shorter => "shorter pane",
    /// Makes the focused pane taller.
    Taller => "taller pane",
    /// Puts the panes back to where they stand by themselves.
    ResetLayout => "reset layout",
    /// Takes the mouse from the terminal, or gives it back.
    ToggleMouse => "mouse on / off (shift-drag selects)",
    /// Redraws the whole screen.
    Redraw => "redraw",
    /// Edits the filter of the focused list.
    Filter => "filter",

    // Lists.
    /// Selects the row above.
    Up => "up",
    /// Selects the row below.
    Down => "down",
    /// Selects the first row.
    First => "first",
    /// Selects the last row.
    Last => "last",
    /// Selects half a page up.
    HalfPageUp => "half a page up",
    /// Selects half a page down.
    HalfPageDown => "half a page down",
    /// Selects a page up.
    PageUp => "page up",
    /// Selects a page down.
    PageDown => "page down",
    /// Opens what is selected.
    Open => "open",
    /// Sorts by the next column.
    Sort => "sort by the next column",
    /// Turns the order around.
    Reverse => "reverse the order",

    /// Chooses the columns of the table that has focus.
    Columns => "columns of the table",

    // Cluster and Execute.
    /// Opens the form that starts a node on this machine.
    AddNode => "add a node on this machine",
    /// Asks whether to stop the selected local process.
    StopProcess => "stop the local process",
    /// Stops the selected process, after the question.
    StopNow => "stop it",
    /// Asks whether to cordon the selected node, or has it get work again.
    CordonNode => "cordon / uncordon the node, group",
    /// Asks whether to approve the selected node.
    ApproveNode => "approve the node or group",
    /// Asks whether to refuse the selected node.
    RefuseNode => "refuse the node or group",
    /// Changes the node, after the question.
    ConfirmNode => "change the node",
    /// Groups the nodes by the next attribute that they declare.
    GroupNodes => "group nodes by the next attribute",
    /// Folds the selected group of nodes, or shows its nodes again.
    FoldGroup => "fold / unfold the group of nodes",
    /// Folds all groups of nodes, or shows all their nodes again.
    FoldGroups => "fold / unfold all groups",
    /// Starts the node that the form describes.
    StartNode => "start the node",
    /// Runs the selected run again, or starts the selected process again.
    Again => "repeat the run / restart the process",
    /// Looks at the run before.
    OlderRun => "older run",
    /// Looks at the run after.
    NewerRun => "newer run",
    /// Lists the forms that are kept.
    Presets => "presets",
    /// Keeps the form under a name.
    SavePreset => "save as a preset",
    /// Removes what is selected.
    Remove => "remove",
    /// Shows stdout, stderr, or the whole answer.
    NextOutput => "stdout / stderr / raw JSON",
    /// Shows JSON a member a line, or as it was written.
    Pretty => "JSON formatted / raw",
    /// Moves the output to the left.
    OutputLeft => "scroll output left",
    /// Moves the output to the right.
    OutputRight => "scroll output right",
    /// Shows the output in the program that `PAGER` names.
    OpenPager => "output in $PAGER",
    /// Marks a result group, for others to be compared with it.
    Mark => "mark the group to compare with",
    /// Shows how two result groups differ.
    Diff => "compare two result groups",

    // The form.
    /// Goes to the next field.
    NextField => "next field",
    /// Goes to the field before.
    PreviousField => "previous field",
    /// Takes the next known value of a field.
    NextChoice => "next known value",
    /// Takes the known value before.
    PreviousChoice => "previous known value",
    /// Undoes the last edit of a text field.
    Undo => "undo the last edit",
    /// Runs the function.
    Run => "run",
    /// Copies the request as a command line for curl.
    CopyCurl => "copy as curl",

    // Live things.
    /// Stops taking in what is new, or catches up.
    Pause => "pause / resume",
    /// Follows what is newest.
    Follow => "follow the newest",

    // Data.
    /// Moves the crosshair, then the chart, into the past.
    Earlier => "move the crosshair left",
    /// Moves the crosshair, then the chart, towards now.
    Later => "move the crosshair right",
    /// Shows a shorter span; the resolution follows.
    ZoomIn => "zoom in (resolution follows)",
    /// Shows a longer span; the resolution follows.
    ZoomOut => "zoom out (resolution follows)",
    /// Takes a coarser resolution.
    Coarser => "coarser resolution",
    /// Takes a finer resolution.
    Finer => "finer resolution",
    /// Draws candles, a line, or smoothed candles.
    NextChart => "candles / line / heikin",
    /// Shows or hides indicators.
    Indicators => "averages / exponential / bands / none",
    /// Acquires the public tag.
    AcquireTag => "acquire the tag public",
    /// Charts the next column of numbers.
    NextColumn => "chart the next column",
    /// Shows rows as numbers.
    RowsTable => "rows as a table",
    /// Edits the one field of metadata that the list is filtered by.
    MetadataFilter => "filter by one field of metadata",
    /// Watches what is selected, or no longer.
    Pin => "pin / unpin",
    /// Writes what is shown to a file.
    Export => "export to a file",

    // Inference.
    /// Shows the next topic.
    NextTopic => "next topic",
    /// Shows the label before.
    PreviousLabel => "previous label",
    /// Shows the next label.
    NextLabel => "next label",
    /// Leaves outliers out of the bundle, or does not.
    Resistant => "with / without outliers",
    /// Shows influence, leave-outs or losses of the actors.
    LeaveOuts => "influence / leave-outs / losses",
    /// Asks the service less often.
    AskLess => "poll less often",
    /// Asks the service more often.
    AskMore => "poll more often",

    // Logs.
    /// Shows lower log level.
    LowerLevel => "lower log level",
    /// Shows higher log level.
    HigherLevel => "higher log level",
    /// Shows the lines of one source, in turn.
    NextSource => "next log source",
    /// Goes to the next line that fits what was searched for.
    NextMatch => "next match",
    /// Goes to the line before that fits.
    PreviousMatch => "previous match",
    /// Hides the lines that do not match the search, or shows them.
    OnlyMatches => "only matching lines / all lines",
    /// Breaks long lines, or cuts them.
    Wrap => "wrap long lines",
    /// Shows times, or not.
    Times => "times on / off",
}

impl Action {
    /// What a file of keys calls it: `next-pane`, `show-data`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Show(screen) => format!("show-{}", screen.title()),
            action => <&str>::from(action).to_owned(),
        }
    }

    /// Whether it is a step within what is in view, which means nothing from elsewhere.
    pub(crate) const fn is_step(self) -> bool {
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
                | Self::Undo
                | Self::Show(_)
        )
    }
}
