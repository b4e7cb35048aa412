//! ARG: arguments that are missing, null, a list, text; null members; numbers as text.

use countersign_tests::client::{refusal, text};
use countersign_tests::hostile::Hostile;
use serde_json::json;

/// What is to become of a call with these arguments (as raw JSON, empty = left out).
enum Fate {
    Runs,
    Refused,
}

fn check(report: u32, tool: &str, arguments: &str, fate: &Fate) {
    let tools = [
        r#"{"name":"open","inputSchema":{"type":"object","properties":{"x":{"type":["string","null"]},"n":{"type":"number"}}}}"#,
        r#"{"name":"needs","inputSchema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}}"#,
        r#"{"name":"none","inputSchema":{"type":"object"}}"#,
    ];
    let (world, hostile) = Hostile::world(&json!({"tools_raw": tools}));
    let mut client = world.connect();
    let member = if arguments.is_empty() {
        String::new()
    } else {
        format!(r#","arguments":{arguments}"#)
    };
    client.line(&format!(
        r#"{{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{{"name":"{tool}"{member}}}}}"#
    ));
    let answer = client.answer(&json!(900));
    client.request("ping", &json!({}));
    match fate {
        Fate::Runs => {
            assert_eq!(
                text(&answer),
                format!("ran {tool}"),
                "report {report}: {tool} with {arguments:?}: {answer}"
            );
            assert_eq!(hostile.ran(), [tool]);
        }
        Fate::Refused => {
            assert!(
                refusal(&answer).is_some(),
                "report {report}: {tool} with {arguments:?}: {answer}"
            );
            assert!(
                hostile.ran().is_empty(),
                "report {report}: {tool} with {arguments:?} ran"
            );
        }
    }
}

#[test]
fn arg_54_the_five_shapes_have_one_table_of_answers() {
    for (arguments, fate) in [
        ("", Fate::Runs),
        ("null", Fate::Runs),
        ("{}", Fate::Runs),
        ("[]", Fate::Refused),
        ("\"abc\"", Fate::Refused),
        ("7", Fate::Refused),
        ("true", Fate::Refused),
    ] {
        check(54, "open", arguments, &fate);
    }
}

#[test]
fn arg_54_left_out_arguments_do_not_satisfy_a_required_one() {
    for arguments in ["", "null", "{}", "[]", "\"abc\""] {
        check(54, "needs", arguments, &Fate::Refused);
    }
    check(54, "needs", r#"{"x":"y"}"#, &Fate::Runs);
}

#[test]
fn arg_55_a_tool_without_parameters_needs_no_arguments() {
    check(55, "none", "", &Fate::Runs);
    check(55, "none", "{}", &Fate::Runs);
}

#[test]
fn arg_56_a_list_is_no_success() {
    check(56, "none", "[]", &Fate::Refused);
    check(56, "none", "[1]", &Fate::Refused);
}

#[test]
fn arg_58_60_a_null_member_is_neither_added_nor_taken_away() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    for arguments in [r#"{"value":null}"#, r#"{}"#, r#"{"a":null,"b":{"c":null}}"#] {
        client.line(&format!(
            r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        ));
        let answer = client.answer(&json!("x"));
        assert!(
            text(&answer).contains(&format!(r#""arguments":{arguments}"#)),
            "{arguments} became {answer}"
        );
    }
    assert_eq!(hostile.ran().len(), 3);
}

#[test]
fn arg_61_text_is_no_number() {
    check(61, "open", r#"{"n":"448"}"#, &Fate::Refused);
    check(61, "open", r#"{"n":448}"#, &Fate::Runs);
}
