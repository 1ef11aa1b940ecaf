//! Changes that forms request from the services, and their outcomes.

use std::path::PathBuf;

use model::dataset::{Column, DatasetId, Dtype};
use model::topic::TopicId;
use wire::accounts::{Credentials, KeyBody, KeyWithSecret, Secret};
use wire::datasets::{CreateDataset, UpdateDataset};
use wire::inference::network::TopicSettings;

/// A change that a form requests from a service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    CreateDataset(CreateDataset),
    EditDataset(Box<DatasetEdit>),
    DeleteDataset {
        dataset: DatasetId,
        name: String,
    },
    /// Imports the rows of a file.
    Import {
        path: PathBuf,
        /// Name or id of the dataset. `None` to name it like the file.
        dataset: Option<String>,
        /// Field with the timestamp. `None` to detect it.
        time: Option<String>,
        /// True to skip invalid rows. Otherwise, an invalid row ends the import.
        skips_bad: bool,
    },
    CreateTopic(Box<TopicSettings>),
    /// Changes the settings of a topic, and activates or pauses it. `None` leaves them unchanged.
    EditTopic {
        topic: TopicId,
        /// Settings before and after the edit. Only the differences are stored.
        settings: Option<Box<[TopicSettings; 2]>>,
        active: Option<bool>,
    },
    DeleteTopic {
        topic: TopicId,
        name: String,
    },
    /// Logs in to an account, or creates it if `is_new` is true.
    LogIn {
        credentials: Credentials,
        is_new: bool,
    },
    LogOut(Session),
    CreateKey {
        session: Session,
        name: String,
    },
    RevokeKey {
        session: Session,
        id: i64,
        name: String,
    },
}

impl Change {
    /// Returns the verb, its past tense and the object of the change.
    fn words(&self) -> (&'static str, &'static str, String) {
        match self {
            Self::CreateDataset(CreateDataset { name, .. }) => {
                ("create", "created", format!("dataset {name}"))
            }
            Self::EditDataset(edit) => ("change", "changed", format!("dataset {}", edit.name)),
            Self::DeleteDataset { name, .. } => ("delete", "deleted", format!("dataset {name}")),
            Self::Import { path, .. } => ("import", "imported", path.display().to_string()),
            Self::CreateTopic(settings) => {
                ("create", "created", format!("topic {}", settings.metadata))
            }
            Self::EditTopic { topic, .. } => ("change", "changed", format!("topic {topic}")),
            Self::DeleteTopic { topic, name } => {
                ("delete", "deleted", format!("topic {topic}, {name}"))
            }
            Self::LogIn { credentials, .. } => {
                ("log in to", "logged in to", format!("account {}", credentials.name))
            }
            Self::LogOut(session) => {
                ("log out of", "logged out of", format!("account {}", session.account))
            }
            Self::CreateKey { name, .. } => ("create", "created", format!("key {name}")),
            Self::RevokeKey { id, name, .. } => ("revoke", "revoked", format!("key {id}, {name}")),
        }
    }

    /// Describes the change as an infinitive: `create dataset cpu`.
    pub(crate) fn what(&self) -> String {
        let (verb, _, object) = self.words();
        format!("{verb} {object}")
    }

    /// Describes the completed change: `created dataset cpu`.
    pub(crate) fn done(&self) -> String {
        let (_, verb, object) = self.words();
        format!("{verb} {object}")
    }
}

/// Outcome of a change.
#[derive(Debug)]
pub(crate) enum Changed {
    Done,
    /// This dataset was created or changed.
    Dataset(DatasetId),
    /// Rows were imported into this dataset. The text is the report of the import.
    Imported(Option<DatasetId>, String),
    /// This topic was created or changed.
    Topic(TopicId),
    /// All keys of an account, with the new key if one was created.
    Keys(Account, Option<Box<KeyWithSecret>>),
}

/// Changes of a dataset. Lists contain only the names that change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatasetEdit {
    pub(crate) dataset: DatasetId,
    pub(crate) name: String,
    pub(crate) update: UpdateDataset,
    pub(crate) added_columns: Vec<(String, Dtype)>,
    /// Name and new name of each renamed column.
    pub(crate) renamed_columns: Vec<(String, String)>,
    /// Columns with their ids, so that a repeated edit does not delete a new column with the same name.
    pub(crate) deleted_columns: Vec<Column>,
    pub(crate) added_tags: Vec<String>,
    pub(crate) removed_tags: Vec<String>,
}

/// A session of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// Name of the account.
    pub(crate) account: String,
    /// Cookie of the session.
    pub(crate) cookie: Secret,
}

/// The account that is logged in, and its keys.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) session: Session,
    pub(crate) keys: Vec<KeyBody>,
}
