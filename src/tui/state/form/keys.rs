//! The API keys of an account, and the forms that log in to it, and create and revoke keys.

use wire::accounts::{Credentials, KeyBody, Secret};

use super::{Form, FormField, Purpose};
use crate::state::change::{Change, Session};

/// Choices of the form that logs in.
const ACCOUNTS: &[&str] = &["exists", "is new"];

/// Returns the form that logs in to an account.
pub(crate) fn log_in_form() -> Form {
    let form = Form::new(
        Purpose::LogIn,
        "Log in to an account",
        "Log in",
        vec![
            FormField::new("name", "name of the account, as at the portal", "").required(),
            FormField::new("password", "8 to 256 characters; it is never stored", "")
                .required()
                .secret(),
            FormField::choice(
                "account",
                "↑↓ an existing account, or a new one",
                ACCOUNTS,
                "exists",
            ),
        ],
    );
    form.explained("API keys belong to an account of the service.")
}

/// Returns the form that creates a key.
pub(crate) fn create_form(session: &Session) -> Form {
    let name = FormField::new("name", "purpose of the key", "").required();
    Form::new(Purpose::CreateKey(session.clone()), "New API key", "Create", vec![name])
}

/// Returns the form that revokes a key.
pub(crate) fn revoke_form(session: &Session, key: &KeyBody) -> Form {
    let KeyBody { id, name, .. } = key;
    let (session, name) = (session.clone(), name.clone());
    let intro = format!("Revokes key {id}, {name}, for good: no service accepts it any more.");
    let change = Change::RevokeKey { session, id: *id, name };
    Form::confirming(change, intro, "Revoke", Vec::new())
}

/// Returns the request that logs in.
pub(super) fn log_in(form: &Form) -> Change {
    let name = form.value("name").to_owned();
    // A password can begin or end with a space.
    let password = form.fields.iter().find(|field| field.label == "password");
    let password = Secret(password.map_or("", |field| field.text.value()).to_owned());
    let is_new = form.value("account") == ACCOUNTS[1];
    Change::LogIn { credentials: Credentials { name, password }, is_new }
}
