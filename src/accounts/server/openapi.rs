//! `GET /api/accounts/openapi.json`: describes the paths of accounts. Needs no session.
//!
//! What is described is public: a service that has accounts beside it describes them, too.

use std::sync::LazyLock;

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use serde_json::{Map, Value, json};
use web::openapi::{
    Answer, Api, Caller, Content, Operation, Parameter, answer, json_of, part, settings,
};
use wire::{
    accounts::{
        AccountBody, Credentials, DoneBody, KeyBody, KeyName, KeyWithSecret, KeysBody, MeBody,
        PasswordChange, Removal, SessionsBody, VerifyRequest, VerifyResponse,
    },
    error::DatasetsError,
    paths,
};

/// What accounts are, at the head of their description.
const ABOUT: &str = "People who make API keys of their own.\n\n\
    Signing up or logging in sets the cookie `triptych_session`, which the other operations want. A \
    request that a page of another site makes is refused with 403; too many attempts are with 429, \
    and `Retry-After` tells when to come again.";

/// Groups of operations.
pub const GROUPS: [(&str, &str); 3] = [
    ("accounts", "Signing up, logging in, passwords."),
    ("keys", "The keys of the account that is logged in."),
    ("services", "For services of other machines."),
];

/// A key's or a session's number in a path.
const ID: [Parameter; 1] =
    [part("id", r#"{"type":"integer","format":"int64","minimum":1}"#, "Its number.")];

/// A page for people.
const HTML: [Content; 1] = [Content { kind: "text/html", schema: "Text" }];

/// The schema of a body that tells how much there was of something.
const DONE: [Content; 1] = [json_of("DoneBody")];

/// Every operation of the API, in the order of its groups.
pub const OPERATIONS: [Operation; 17] = [
    operation("accounts", "sign_up", "post", paths::ACCOUNTS_SIGN_UP)
        .takes(&[json_of("Credentials")])
        .says("Makes an account, and logs it in.")
        .of_anybody()
        .gives(&[answer("201", "The account", &[json_of("AccountBody")])]),
    operation("accounts", "log_in", "post", paths::ACCOUNTS_LOG_IN)
        .takes(&[json_of("Credentials")])
        .says("Begins a session.")
        .of_anybody()
        .gives(&[answer("200", "The account", &[json_of("AccountBody")])]),
    operation("accounts", "log_out", "post", paths::ACCOUNTS_LOG_OUT)
        .says("Ends the session, if there is one.")
        .of_anybody()
        .gives(&[answer("200", "How many ended", &DONE)]),
    operation("accounts", "me", "get", paths::ACCOUNTS_ME)
        .says("Who is logged in, and whether anyone may sign up.")
        .of_anybody()
        .gives(&[answer("200", "The account, or null", &[json_of("MeBody")])]),
    operation("accounts", "delete_me", "delete", paths::ACCOUNTS_ME)
        .takes(&[json_of("Removal")])
        .says("Deletes the account, and revokes its keys.")
        .gives(&[answer("200", "How many keys it revoked", &DONE)]),
    operation("accounts", "change_password", "post", paths::ACCOUNTS_PASSWORD)
        .takes(&[json_of("PasswordChange")])
        .says("Changes the password, and ends every other session.")
        .gives(&[answer("200", "How many sessions it ended", &DONE)]),
    operation("accounts", "sessions", "get", paths::ACCOUNTS_SESSIONS)
        .says("Lists the account's sessions.")
        .gives(&[answer("200", "The newest first", &[json_of("SessionsBody")])]),
    operation("accounts", "end_other_sessions", "delete", paths::ACCOUNTS_SESSIONS)
        .says("Ends every session but this one.")
        .gives(&[answer("200", "How many ended", &DONE)]),
    operation("accounts", "end_session", "delete", paths::ACCOUNTS_SESSION)
        .says("Ends one session.")
        .at_one()
        .gives(&[answer("200", "It is ended", &DONE)]),
    operation("keys", "keys", "get", paths::ACCOUNTS_KEYS)
        .says("Lists the account's keys.")
        .gives(&[answer("200", "The newest first", &[json_of("KeysBody")])]),
    operation("keys", "create_key", "post", paths::ACCOUNTS_KEYS)
        .takes(&[json_of("KeyName")])
        .says("Creates a key, whose secret is shown this once.")
        .gives(&[answer("201", "The key and its secret", &[json_of("KeyWithSecret")])]),
    operation("keys", "rename_key", "patch", paths::ACCOUNTS_KEY)
        .takes(&[json_of("KeyName")])
        .says("Gives a key another name.")
        .at_one()
        .gives(&[answer("200", "The key", &[json_of("KeyBody")])]),
    operation("keys", "revoke_key", "delete", paths::ACCOUNTS_KEY)
        .says("Revokes a key for good.")
        .at_one()
        .gives(&[answer("200", "It is revoked", &DONE)]),
    operation("keys", "renew_key", "post", paths::ACCOUNTS_KEY_RENEW)
        .says("Gives a key a new secret, shown this once. What the key owns stays its own.")
        .at_one()
        .gives(&[answer("200", "The key and its secret", &[json_of("KeyWithSecret")])]),
    operation("services", "verify_key", "post", paths::ACCOUNTS_VERIFY)
        .takes(&[json_of("VerifyRequest")])
        .says("What a key is good for. Wants the operator's token: `Authorization: Bearer …`.")
        .of_operator()
        .gives(&[answer("200", "The key, or null", &[json_of("VerifyResponse")])]),
    operation("services", "describe_accounts", "get", paths::ACCOUNTS_OPENAPI)
        .says("This description.")
        .of_anybody()
        .gives(&[answer("200", "An OpenAPI document", &[json_of("Document")])]),
    operation("services", "show_accounts", "get", paths::ACCOUNTS_DOCS)
        .says("This description as a page, which needs no network.")
        .of_anybody()
        .gives(&[answer("200", "A page", &HTML)]),
];

/// The document. It does not change while the program runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| describe().to_string());

pub(super) async fn get() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.clone()).into_response()
}

/// An operation of which the rest is still to be said.
struct Said(Operation);

/// Begins to say what an operation is. It wants a session unless said otherwise.
const fn operation(
    group: &'static str,
    id: &'static str,
    method: &'static str,
    path: &'static str,
) -> Said {
    Said(Operation {
        method,
        path,
        id,
        group,
        summary: "",
        text: "",
        parameters: &[],
        body: &[],
        answers: &[],
        caller: Caller::Session,
    })
}

impl Said {
    const fn says(mut self, summary: &'static str) -> Self {
        self.0.summary = summary;
        self
    }

    const fn takes(mut self, body: &'static [Content]) -> Self {
        self.0.body = body;
        self
    }

    const fn at_one(mut self) -> Self {
        self.0.parameters = &ID;
        self
    }

    const fn of_operator(mut self) -> Self {
        self.0.caller = Caller::Operator;
        self
    }

    const fn of_anybody(mut self) -> Self {
        self.0.caller = Caller::Anybody;
        self
    }

    const fn gives(mut self, answers: &'static [Answer]) -> Operation {
        self.0.answers = answers;
        self.0
    }
}

/// The description as a value.
pub(super) fn describe() -> Value {
    Api {
        title: "Accounts",
        version: env!("CARGO_PKG_VERSION"),
        text: ABOUT,
        groups: &GROUPS,
        operations: &[&OPERATIONS],
        schemas: schemas(),
        refusal: "DatasetsError",
        no_key: "DatasetsError",
        key_header: paths::API_KEY_HEADER,
        session_cookie: super::COOKIE,
    }
    .describe()
}

/// The schema of every body.
#[must_use]
pub fn schemas() -> Map<String, Value> {
    let mut read = settings().for_deserialize().into_generator();
    read.subschema_for::<Credentials>();
    read.subschema_for::<KeyName>();
    read.subschema_for::<PasswordChange>();
    read.subschema_for::<Removal>();
    read.subschema_for::<VerifyRequest>();
    let mut written = settings().for_serialize().into_generator();
    written.subschema_for::<AccountBody>();
    written.subschema_for::<DoneBody>();
    written.subschema_for::<KeyBody>();
    written.subschema_for::<KeyWithSecret>();
    written.subschema_for::<KeysBody>();
    written.subschema_for::<MeBody>();
    written.subschema_for::<SessionsBody>();
    written.subschema_for::<VerifyResponse>();
    written.subschema_for::<DatasetsError>();
    let mut schemas = read.take_definitions(true);
    schemas.extend(written.take_definitions(true));
    schemas.insert("Document".to_owned(), json!({"type": "object"}));
    schemas.insert("Text".to_owned(), json!({"type": "string"}));
    schemas
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reference to a schema in `value`.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(name)) = members.get("$ref") {
                    found.push(name.trim_start_matches("#/components/schemas/").to_owned());
                }
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_schema_that_is_named_is_there() {
        let document = describe();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > OPERATIONS.len(), "{found:?}");
        for name in found {
            assert!(document["components"]["schemas"][&name].is_object(), "{name}");
        }
        assert_eq!(
            document["components"]["securitySchemes"]["session"]["name"],
            super::super::COOKIE
        );
    }
}
