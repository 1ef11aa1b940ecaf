//! Actions of keys and their titles in the help and the palette.

use strum::IntoStaticStr;

use crate::screens::Screen;

/// Defines the actions with their titles.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident => $title:literal,)*) => {
        /// A command that keys can be bound to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
        #[strum(serialize_all = "kebab-case")]
        pub enum Action {
            /// Shows a screen.
            Show(Screen),
            $($(#[$doc])* $name,)*
        }

        impl Action {
            /// Returns the title in the help.
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
    // Actions on every screen.
    /// Opens or closes the help.
    Help => "this help",
    /// Goes back one step: closes an overlay, clears a filter, or ends a zoom.
    Back => "back one step",
    /// Exits. Asks for confirmation if a run is pending or an added node would stop.
    Quit => "quit (asks while work is running)",
    /// Exits and leaves added nodes running.
    QuitKeeping => "quit, and leave added nodes running",
    /// Cancels pending runs. Exits when repeated.
    Interrupt => "cancel the run; twice: quit now",
    /// Stops the program until the shell continues it.
    Suspend => "suspend",
    /// Moves the focus to the next pane.
    NextPane => "next pane",
    /// Moves the focus to the previous pane.
    PreviousPane => "previous pane",
    /// Shows only the focused pane, or all panes again.
    Zoom => "zoom pane",
    /// Reloads from the services.
    Refresh => "refresh now",
    /// Opens the form that runs a function.
    OpenForm => "execute a function",
    /// Copies the selection.
    Copy => "copy the selection",
    /// Opens the list of formats in which the selection can be copied.
    CopyAs => "copy as id, JSON, CSV or curl",
    /// Opens the palette, or closes it.
    Palette => "command palette",
    /// Labels all click targets with letters that select them.
    Jump => "jump to a label",
    /// Opens the list of themes.
    Themes => "theme",
    /// Opens the list of past notices.
    Notices => "notices",
    /// Opens the list of rules for alerts.
    Alerts => "alerts",
    /// Opens the prompt for a new rule on the selection.
    AddAlert => "add an alert",
    /// Mutes the selected rule for this session, or unmutes it.
    MuteAlert => "mute / unmute the alert",
    /// Opens the list of profiles.
    Profiles => "profile",
    /// Opens the form for an API key.
    EnterKey => "API key",
    /// Removes the API key of a profile.
    ForgetKey => "remove the API key",
    /// Opens the list of the API keys of an account.
    Keys => "keys list / create / revoke",
    /// Opens the form for a new API key.
    CreateKey => "keys create",
    /// Asks for confirmation to revoke the selected API key.
    RevokeKey => "keys revoke",
    /// Ends the session of the account.
    LogOut => "log out",
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
    /// Resets the dividers of the panes.
    ResetLayout => "reset layout",
    /// Shows the previous frame of the last hour.
    Rewind => "back through what was shown",
    /// Shows the next frame of the last hour. After the last one, shows the live screen.
    Forward => "forward, up to the live screen",
    /// Captures or releases the mouse.
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
    /// Moves the selection up by half a page.
    HalfPageUp => "half a page up",
    /// Moves the selection down by half a page.
    HalfPageDown => "half a page down",
    /// Moves the selection up by a page.
    PageUp => "page up",
    /// Moves the selection down by a page.
    PageDown => "page down",
    /// Opens the selection.
    Open => "open",
    /// Sorts by the next column.
    Sort => "sort by the next column",
    /// Reverses the order.
    Reverse => "reverse the order",

    /// Opens the list of columns of the focused table.
    Columns => "columns of the table",

    // Cluster and Execute.
    /// Opens the form for a new local node.
    AddNode => "add a node on this machine",
    /// Asks for confirmation to stop the selected local process.
    StopProcess => "stop the local process",
    /// Asks for confirmation to cordon or uncordon the selected node.
    CordonNode => "cordon / uncordon the node, group",
    /// Asks for confirmation to approve the selected node.
    ApproveNode => "approve the node or group",
    /// Asks for confirmation to refuse the selected node.
    RefuseNode => "refuse the node or group",
    /// Confirms the question of an overlay.
    Confirm => "yes",
    /// Groups the nodes by the next declared attribute.
    GroupNodes => "group nodes by the next attribute",
    /// Folds or unfolds the selected group of nodes.
    FoldGroup => "fold / unfold the group of nodes",
    /// Folds or unfolds all groups of nodes.
    FoldGroups => "fold / unfold all groups",
    /// Repeats the selected run, or restarts the selected process.
    Again => "repeat the run / restart the process",
    /// Shows the previous run.
    OlderRun => "older run",
    /// Shows the next run.
    NewerRun => "newer run",
    /// Opens the list of presets.
    Presets => "presets",
    /// Saves the form as a preset.
    SavePreset => "save as a preset",
    /// Removes the selection.
    Remove => "remove",
    /// Shows the next output: stdout, stderr, or the whole response.
    NextOutput => "stdout / stderr / raw JSON",
    /// Formats JSON, or shows it as received.
    Pretty => "JSON formatted / raw",
    /// Scrolls the output to the left.
    OutputLeft => "scroll output left",
    /// Scrolls the output to the right.
    OutputRight => "scroll output right",
    /// Shows the output in the pager.
    OpenPager => "output in $PAGER",
    /// Marks a result group for comparison with another group.
    Mark => "mark the group to compare with",
    /// Compares the selected result group with the marked one.
    Diff => "compare two result groups",

    // The form.
    /// Moves to the next field.
    NextField => "next field",
    /// Moves to the previous field.
    PreviousField => "previous field",
    /// Sets a field to its next known value.
    NextChoice => "next known value",
    /// Sets a field to its previous known value.
    PreviousChoice => "previous known value",
    /// Undoes the last edit of a text field.
    Undo => "undo the last edit",
    /// Runs the function.
    Run => "run",
    /// Copies the request as a curl command.
    CopyCurl => "copy as curl",

    // Live data.
    /// Pauses updates, or catches up.
    Pause => "pause / resume",
    /// Moves the view to the latest values and follows them.
    Follow => "follow the latest",

    // Data.
    /// Moves the crosshair into the past. At the edge, the chart moves, too.
    Earlier => "move the crosshair left",
    /// Moves the crosshair towards the present. At the edge, the chart moves, too.
    Later => "move the crosshair right",
    /// Shows a shorter period, at a suitable resolution.
    ZoomIn => "zoom in (resolution follows)",
    /// Shows a longer period, at a suitable resolution.
    ZoomOut => "zoom out (resolution follows)",
    /// Selects a coarser resolution.
    Coarser => "coarser resolution",
    /// Selects a finer resolution.
    Finer => "finer resolution",
    /// Selects the next kind of chart: candles, a line, or smoothed candles.
    NextChart => "candles / line / heikin",
    /// Selects the next set of indicators.
    Indicators => "averages / exponential / bands / none",
    /// Draws the forecasts of the next topic that predicts the charted column, or none.
    Forecasts => "forecasts of the next topic / none",
    /// Acquires the public tag.
    AcquireTag => "acquire the tag public",
    /// Charts the next numeric column.
    NextColumn => "chart the next column",
    /// Shows rows as a table.
    RowsTable => "rows as a table",
    /// Edits the filter of the list by one field of metadata.
    MetadataFilter => "filter by one field of metadata",
    /// Pins or unpins the selected dataset.
    Pin => "pin / unpin",
    /// Compares the selected dataset with datasets that are selected later, or stops that.
    Compare => "compare / stop comparing",
    /// Writes the current view to a file.
    Export => "export to a file",

    /// Opens the form for a new dataset.
    CreateDataset => "datasets create",
    /// Opens the form that changes the selected dataset.
    EditDataset => "datasets tags / columns / retention",
    /// Opens the form that deletes the selected dataset.
    DeleteDataset => "datasets delete",
    /// Opens the form that imports a file.
    Import => "datasets import",

    // Inference.
    /// Opens the form for a new topic.
    CreateTopic => "inference topics create",
    /// Opens the form that changes, pauses or resumes the selected topic.
    EditTopic => "inference topics update / pause / resume",
    /// Opens the form that deletes the selected topic.
    DeleteTopic => "inference topics delete",
    /// Shows the next topic.
    NextTopic => "next topic",
    /// Shows the previous label.
    PreviousLabel => "previous label",
    /// Shows the next label.
    NextLabel => "next label",
    /// Excludes or includes outliers.
    Resistant => "with / without outliers",
    /// Shows the next measure of the actors: influence, leave-outs or losses.
    LeaveOuts => "influence / leave-outs / losses",
    /// Polls the service less often.
    AskLess => "poll less often",
    /// Polls the service more often.
    AskMore => "poll more often",

    // Logs.
    /// Shows one more log level, the next lower.
    LowerLevel => "lower log level",
    /// Hides the lowest visible log level.
    HigherLevel => "higher log level",
    /// Shows only the lines of the next source.
    NextSource => "next log source",
    /// Selects the next match of the search.
    NextMatch => "next match",
    /// Selects the previous match of the search.
    PreviousMatch => "previous match",
    /// Hides or shows the lines that do not match the search.
    OnlyMatches => "only matching lines / all lines",
    /// Wraps long lines, or cuts them.
    Wrap => "wrap long lines",
    /// Shows or hides the times of lines.
    Times => "times on / off",
}

impl Action {
    /// Returns the name of the action in a key file, such as `next-pane` or `show-data`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Show(screen) => format!("show-{}", screen.title()),
            action => <&str>::from(action).to_owned(),
        }
    }

    /// Returns true if the action opens a form for topics.
    pub(crate) const fn is_on_topics(self) -> bool {
        matches!(self, Self::CreateTopic | Self::EditTopic | Self::DeleteTopic)
    }

    /// Returns true if the palette does not list the action. Such an action makes sense only at
    /// the current focus, or shows a screen, for which the palette has another entry.
    pub(crate) const fn is_step(self) -> bool {
        matches!(
            self,
            Self::Palette
                | Self::Interrupt
                | Self::Back
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
