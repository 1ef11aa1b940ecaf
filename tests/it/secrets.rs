//! Passwords in addresses: none is printed, wherever the address stands and whatever is wrong with it.

use crate::support::command::{Home, Output};

/// The password in every address here.
const SECRET: &str = "hunter2";

/// Checks that `said`, the output of a command that refuses an address, does not repeat its password.
#[track_caller]
fn check(said: &Output, what: &str) {
    assert_ne!(said.code, 0, "{what}: {said:?}");
    assert!(!said.err.is_empty() || !said.out.is_empty(), "{what}: {said:?}");
    assert!(!format!("{said:?}").contains(SECRET), "{what}: {said:?}");
}

/// Addresses that no service has: of a wrong scheme, port or host, and without a scheme.
fn unfit_addresses(scheme: &str) -> [String; 4] {
    [
        format!("{}://me:{SECRET}@host/name", scheme.get(1..).unwrap()),
        format!("{scheme}://me:{SECRET}@host:abc/name"),
        format!("{scheme}://me:{SECRET}@[::1"),
        format!("me:{SECRET}@host/name"),
    ]
}

#[test]
fn no_flag_or_variable_repeats_the_password_of_an_address_that_it_refuses() {
    let serve = ["datasets", "serve", "--listen", "127.0.0.1:0"];
    let inference = ["inference", "serve", "--listen", "127.0.0.1:0", "--datasets", "http://h"];
    let cases: [(&str, &[&str], &str, &str); 8] = [
        ("postgres", &serve, "--store", "TRIPTYCH_STORE"),
        ("http", &serve, "--accounts", "TRIPTYCH_ACCOUNTS"),
        ("http", &serve, "--otlp", "TRIPTYCH_OTLP"),
        ("http", &["node"], "--otlp", "TRIPTYCH_OTLP"),
        ("http", &["node"], "--otlp", "B7S_OTLP"),
        ("postgres", &["keys", "list"], "--database", "TRIPTYCH_STORE"),
        ("http", &inference, "--head", "TRIPTYCH_HEAD"),
        ("http", &["nodes"], "--head", "TRIPTYCH_HEAD"),
    ];
    for (scheme, command, flag, variable) in cases {
        for address in unfit_addresses(scheme) {
            let home =
                || Home::new().with("TRIPTYCH_ACCOUNTS_TOKEN", &"0123456789abcdef".repeat(4));
            let by_flag = [command, &[flag, &address]].concat();
            check(&home().run(&by_flag), &by_flag.join(" "));
            let said = home().with(variable, &address).run(command);
            check(&said, &format!("{variable}={address} {}", command.join(" ")));
        }
    }
}

#[test]
fn no_positional_argument_repeats_the_password_of_an_address() {
    let home = Home::new();
    for address in unfit_addresses("postgres") {
        for command in [
            ["datasets", "copy", &address, "rows.db"].as_slice(),
            &["keys", "copy", &address, "accounts.db"],
            &["inference", "copy", "inference.db", &address],
            &["datasets", "mirror", &address],
            &["datasets", "serve", &address],
            &[address.as_str()],
        ] {
            check(&home.run(command), &command.join(" "));
        }
    }
}

#[test]
fn no_file_repeats_the_password_of_an_address() {
    let home = Home::new();
    let node = format!("otlp: ftp://me:{SECRET}@host\n");
    for (name, text) in [
        ("node.yaml", node.clone()),
        ("node.yaml", format!("{node}port: [\n")),
        ("node.toml", format!("otlp = \"ftp://me:{SECRET}@host\"\n")),
        ("node.toml", format!("otlp = \"http://me:{SECRET}@host\n")),
    ] {
        let path = home.write(name, text.as_bytes());
        check(&home.run(&["node", "--config", &path]), &text);
        check(&home.run(&["doctor", "--node-config", &path]), &text);
    }
    for address in [format!("http://me:{SECRET}@127.0.0.1:1"), format!("ftp://me:{SECRET}@host")] {
        for service in ["head", "datasets", "inference"] {
            let text = format!("[profiles.a]\n{service} = \"{address}\"\n");
            home.write(".config/triptych/config.toml", text.as_bytes());
            check(&home.run(&["doctor"]), &text);
            check(&home.run(&["nodes", "--profile", "a"]), &text);
            home.write(".config/triptych/config.toml", b"");
            check(&home.run(&["doctor", &format!("--{service}"), &address]), &text);
        }
    }
}

#[test]
fn password_of_a_database_on_the_command_line_is_warned_of() {
    let home = Home::new();
    let url = format!("postgres://me:{SECRET}@127.0.0.1:1/rows");
    for command in
        [["keys", "list", "--database", &url].as_slice(), &["datasets", "copy", &url, "rows.db"]]
    {
        let said = home.run(command);
        check(&said, &command.join(" "));
        assert_eq!(said.err.matches("can read the password in").count(), 1, "{said:?}");
        assert!(said.err.contains("PGPASSWORD or ~/.pgpass"), "{said:?}");
    }
    let said = Home::new().with("TRIPTYCH_STORE", &url).run(&["keys", "list"]);
    assert!(!said.err.contains("can read the password in"), "{said:?}");
    let help = Home::new()
        .with("TRIPTYCH_HEAD", &format!("http://me:{SECRET}@h"))
        .run_ok(&["nodes", "-h"]);
    assert!(!help.contains(SECRET), "{help}");
}
