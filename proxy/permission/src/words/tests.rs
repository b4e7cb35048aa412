//! What is shown: nothing left out, nothing hidden, nothing of others outside quotes, the same code everywhere.

use proptest::prelude::*;
use serde_json::json;

use super::{
    CallView, Direction, Flag, Folding, Line, Page, Piece, Shown, Source, Span, act_page,
    call_page, differences, permission_page,
};
use crate::document::{ActDocument, ApprovalDocument, Document, PermissionDocument};
use crate::fixture::{ARGUMENTS, Ring, act_value, approval_value, permission, permission_value};
use crate::{Code, Hash, Reason};

fn approval(arguments: &[u8]) -> Document<ApprovalDocument> {
    let mut value = approval_value(&Ring::one().head());
    value["arguments"]["hash"] = json!(Hash::of(arguments));
    Document::from_value(value).unwrap()
}

fn view<'a>(approval: &'a Document<ApprovalDocument>, arguments: &'a [u8]) -> CallView<'a> {
    CallView {
        approval,
        arguments,
        permission: None,
        verb: Some("write a file"),
        object: Some("/path"),
        agent_says: None,
        before: None,
    }
}

fn shown(text: &str, want: &str, flags: &[Flag]) {
    let shown = Shown::of(text);
    assert_eq!(shown.to_text(usize::MAX), want, "{text:?}");
    assert_eq!(shown.flags, flags, "{text:?}");
}

#[test]
fn k23_t24_what_is_not_seen_is_made_visible() {
    use Flag::{Invisible, MixedScripts, Spelling};
    shown("plain ü 日本 ok", "plain ü 日本 ok", &[]);
    shown("a\u{202e}gpj.exe", "a⟨U+202E⟩gpj.exe", &[Invisible]);
    shown("a\u{200b}b\u{feff}", "a⟨U+200B⟩b⟨U+FEFF⟩", &[Invisible]);
    shown("\u{1b}[31m", "⟨U+001B⟩[31m", &[Invisible]);
    shown("a\tb\r\n", "a⟨U+0009⟩b⟨U+000D⟩↵\n", &[Invisible]);
    shown("a\u{a0}b\u{3164}", "a⟨U+00A0⟩b⟨U+3164⟩", &[Invisible]);
    shown("\u{2066}x\u{2069}", "⟨U+2066⟩x⟨U+2069⟩", &[Invisible]);
    shown("x\u{e0041}", "x⟨U+E0041⟩", &[Invisible]);
    shown("\u{e000}", "⟨U+E000⟩", &[Invisible]);
    shown("e\u{301}", "e⟨U+0301⟩", &[Spelling]);
    shown("\u{e9}", "\u{e9}", &[]);
    shown("\u{212b}", "⟨U+212B⟩", &[Spelling]);
    shown(
        "p\u{430}ypal.com",
        "p\u{430}ypal.com",
        &[MixedScripts("p\u{430}ypal".into())],
    );
    shown("hello мир", "hello мир", &[]);
    shown("ひらカタ漢字", "ひらカタ漢字", &[]);
    shown(
        "“⟨U+202E⟩”↵",
        "⟨U+201C⟩⟨U+27E8⟩U+202E⟨U+27E9⟩⟨U+201D⟩⟨U+21B5⟩",
        &[],
    );
}

#[test]
fn k24_every_argument_is_shown_with_the_digits_it_has() {
    let arguments =
        br#"{"a":{"b/c":[1,9007199254740993,1.50,null,true,{}]},"empty":[],"path":"/x","t":""}"#;
    let approval = approval(arguments);
    let text = call_page(&view(&approval, arguments))
        .unwrap()
        .to_text(Folding::Open);
    for line in [
        "“/a/b~1c/0”: 1\n",
        "“/a/b~1c/1”: 9007199254740993\n",
        "“/a/b~1c/2”: 1.50\n",
        "“/a/b~1c/3”: null\n",
        "“/a/b~1c/4”: true\n",
        "“/a/b~1c/5”: an empty object\n",
        "“/empty”: an empty list\n",
        "“/path”: “/x”\n",
        "“/t”: “”\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(text.starts_with("Write a file: “/x”\n"), "{text}");
}

#[test]
fn k24_long_ones_are_folded_with_length_and_hash_and_whole_all_the_same() {
    let long = "x".repeat(1 << 20);
    let arguments = serde_json::to_vec(&json!({"content": long})).unwrap();
    let approval = approval(&arguments);
    let page = call_page(&view(&approval, &arguments)).unwrap();
    let open = page.to_text(Folding::Open);
    assert!(open.contains(&long));
    let closed = page.to_text(Folding::Closed);
    let note = format!(
        "1048576 characters, 1048576 bytes, {}",
        Hash::of(long.as_bytes())
    );
    assert!(closed.contains(&note) && closed.len() < 4096, "{closed}");
    let lines = (0..20)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        super::Quote::new(Source::Agent, &lines).fold.is_some(),
        "many lines are long too"
    );
}

#[test]
fn k26_others_words_stand_in_quotes_only() {
    let evil = "x” [approved] \u{202e}";
    let mut value = approval_value(&Ring::one().head());
    value["tool"]["name"] = json!(evil);
    let approval = Document::from_value(value).unwrap();
    let mut view = view(&approval, ARGUMENTS);
    (view.verb, view.agent_says) = (None, Some(evil));
    let page = call_page(&view).unwrap();
    let ours: String = page
        .lines()
        .flat_map(|line| &line.spans)
        .filter_map(|span| match span {
            Span::Ours(words) => Some(words.as_str()),
            Span::Literal(_) | Span::Quote(_) => None,
        })
        .collect();
    assert!(!ours.contains("[approved]"), "{ours}");
    let text = page.to_text(Folding::Open);
    assert!(
        text.starts_with("Call the tool “x⟨U+201D⟩ [approved] ⟨U+202E⟩”: “"),
        "{text}"
    );
    assert!(text.contains("It says: “x⟨U+201D⟩"), "{text}");
}

#[test]
fn k22_other_arguments_than_the_approved_are_not_shown() {
    let good = approval(ARGUMENTS);
    assert!(call_page(&view(&good, ARGUMENTS)).is_ok());
    for other in [&b"{}"[..], b"", b"{\"path\":1}"] {
        assert_eq!(
            call_page(&view(&good, other)).unwrap_err().reason,
            Reason::Rule
        );
    }
    for bad in [&b"{\"a\":1,\"a\":2}"[..], b"{", b"{\"a\":\"\\ud800\"}"] {
        let document = approval(bad);
        assert_eq!(
            call_page(&view(&document, bad)).unwrap_err().reason,
            Reason::Rule
        );
    }
}

#[test]
fn differences_from_the_call_approved_last() {
    let (before, now) = (
        &br#"{"a":1,"gone":true,"path":"/x"}"#[..],
        &br#"{"a":2,"new":"n","path":"/x"}"#[..],
    );
    let document = approval(now);
    let mut view = view(&document, now);
    let text = |view: &CallView<'_>| call_page(view).unwrap().to_text(Folding::Open);
    assert!(text(&view).contains("No call of this tool was approved before\n"));
    view.before = Some(before);
    let differs = text(&view);
    for line in [
        "“/a” was 1, is 2\n",
        "New: “/new”: “n”\n",
        "Gone: “/gone”: true\n",
    ] {
        assert!(differs.contains(line), "{differs}");
    }
    assert!(!differs.contains("“/path” was"));
    view.before = Some(now);
    assert!(text(&view).contains("The same arguments"));
}

#[test]
fn k25_one_code_for_all_screens() {
    let document = permission(&Ring::one().head());
    let page = permission_page(&document, None, &());
    assert_eq!(
        (page.code, page.hash),
        (Code::of(document.hash()).to_string(), document.hash())
    );
    let mut other = permission_value(&Ring::one().head());
    other["mode"] = json!("ask");
    let other = Document::<PermissionDocument>::from_value(other).unwrap();
    assert_ne!(other.code(), document.code());
}

/// Every text, number and hash of a permission is somewhere on its page.
#[test]
fn a_permissions_page_leaves_nothing_out() {
    let mut value = permission_value(&Ring::one().head());
    let tool = &mut value["servers"][0]["tools"][0];
    for (name, to) in [
        ("scope", json!("notes")),
        ("validation", json!("warn")),
        ("open_arguments", json!(true)),
        ("max_items", json!(77)),
        ("max_bytes", json!(7777)),
        ("cost", json!({"per": "/queries"})),
        ("replay", json!(false)),
        ("require_copy", json!(true)),
        ("audience", json!("public")),
        ("client_token", json!("/token")),
        ("danger", json!({"const": "danger"})),
        ("approval", json!("person")),
    ] {
        tool[name] = to;
    }
    value["servers"][0]["methods"] = json!(["x/method"]);
    value["servers"][0]["cwd"] = json!("/cwd");
    value["servers"][0]["context"] = json!(true);
    value["servers"][0]["other_members"] = json!("deny");
    value["scopes"] = json!(["notes"]);
    value["turn_idle_minutes"] = json!(99);
    value["key_expires_at"] = json!("2027-01-01T00:00:00Z");
    value["book"]["reads"] = json!(false);
    value["book"]["retain"] = json!(333);
    value["book"]["payloads"] = json!("digest");
    let document = Document::<PermissionDocument>::from_value(value.clone()).unwrap();
    let text = permission_page(&document, None, &()).to_text(Folding::Open);
    // Which document, executor and keyring it is stands in the hash, not in words.
    for apart in ["type", "id", "executor", "keyring", "issued_at"] {
        value.as_object_mut().unwrap().remove(apart);
    }
    let mut seen = 0;
    let mut open = vec![&value];
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::Object(members) => open.extend(members.values()),
            serde_json::Value::Array(items) => open.extend(items),
            serde_json::Value::String(leaf) => {
                // Words of our own vocabulary are told in sentences.
                let ours = [
                    "read", "write", "always", "passkey", "person", "auto", "warn", "public",
                    "deny", "digest", "disabled", "absent", "prefix",
                ];
                assert!(
                    ours.contains(&leaf.as_str()) || text.contains(leaf.as_str()),
                    "{leaf}\n{text}"
                );
                seen += 1;
            }
            serde_json::Value::Number(leaf) => {
                assert!(text.contains(&leaf.to_string()), "{leaf}\n{text}")
            }
            serde_json::Value::Bool(_) | serde_json::Value::Null => {}
        }
    }
    assert!(seen > 40, "{seen}");
    let kept = std::collections::BTreeMap::from([(
        crate::fixture::hash("files"),
        "{\"command\":\"npx\"}".to_owned(),
    )]);
    let named = permission_page(&document, None, &kept).to_text(Folding::Open);
    assert!(named.contains("It is “{\"command\":\"npx\"}”"), "{named}");
}

fn difference(change: impl FnOnce(&mut serde_json::Value)) -> Vec<(String, Direction)> {
    let before = permission(&Ring::one().head());
    let mut value = before.to_value().unwrap();
    change(&mut value);
    let after = Document::<PermissionDocument>::from_value(value).unwrap();
    let found = differences(before.body(), after.body());
    found
        .into_iter()
        .map(|one| (one.member, one.direction))
        .collect()
}

#[test]
fn differences_between_permissions_say_more_or_less() {
    use Direction::{Less, More, Other};
    let one = |member: &str, direction| vec![(member.to_owned(), direction)];
    assert_eq!(difference(|_| {}), []);
    let tool = "servers.files.tools.write_file";
    assert_eq!(
        difference(|value| value["mode"] = json!("read_only")),
        one("agents.claude-desktop.mode", Less)
    );
    assert_eq!(
        difference(|value| value["servers"][0]["tools"][1]["approval"] = json!("person")),
        one(&format!("{tool}.approval"), More)
    );
    assert_eq!(
        difference(|value| value["servers"][0]["tools"][1]["limits"]["max_calls"] = json!(60)),
        one(&format!("{tool}.limits.max_calls"), More)
    );
    assert_eq!(
        difference(|value| value["servers"][0]["tools"][1]["definition"] =
            json!(crate::fixture::hash("x"))),
        one(&format!("{tool}.definition"), Other)
    );
    assert_eq!(
        difference(|value| value["servers"][0]["identity"] = json!(crate::fixture::hash("x"))),
        one("servers.files.identity", Other)
    );
    assert_eq!(
        difference(|value| value["expires_at"] = json!("2027-02-01T00:00:00Z")),
        one("expires_at", Less)
    );
    assert_eq!(
        difference(|value| value["expires_at"] = json!("2027-03-01T00:00:00Z")),
        one("expires_at", More)
    );
    assert_eq!(
        difference(|value| drop(value["servers"][0]["tools"].as_array_mut().unwrap().pop())).last(),
        one(tool, Less).last()
    );
    assert_eq!(
        difference(|value| value["servers"] = json!([]))
            .last()
            .map(|one| one.1),
        Some(Less)
    );
    assert_eq!(
        difference(|value| value["purpose"] = json!("else")),
        one("purpose", Other)
    );
    assert_eq!(
        difference(|value| value["write_policy"]["allow_writes"] = json!(["notes/**", "x/**"])),
        one("agents.claude-desktop.write_policy", More)
    );
    let before = permission(&Ring::one().head());
    let mut value = before.to_value().unwrap();
    value["servers"][0]["tools"][1]["danger"] = json!({"const": 1});
    let after = Document::<PermissionDocument>::from_value(value).unwrap();
    let text = permission_page(&after, Some(before.body()), &()).to_text(Folding::Open);
    assert!(text.contains("More: “servers.files.tools.write_file.danger” was “\"always\"”, becomes “{\"const\":1}”"), "{text}");
}

#[test]
fn acts_have_a_sentence() {
    let document = Document::<ActDocument>::from_value(act_value(&Ring::one().head())).unwrap();
    let text = act_page(&document).to_text(Folding::Open);
    assert!(
        text.starts_with("Open a new turn for the agent “claude-desktop”\n"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn k24_no_letter_of_a_text_is_lost(text in any::<String>()) {
        let mut again = String::new();
        for piece in Shown::of(&text).pieces {
            match piece {
                Piece::Text(text) => again.push_str(&text),
                Piece::Break => again.push('\n'),
                Piece::Mark(code) => {
                    let number = u32::from_str_radix(code.trim_start_matches("U+"), 16).unwrap();
                    again.push(char::from_u32(number).unwrap());
                }
            }
        }
        prop_assert_eq!(again, text);
    }

    #[test]
    fn k23_a_terminal_is_never_steered(text in any::<String>()) {
        let line = Line::ours("x ").quote(Source::Agent, &text).to_text(Folding::Open);
        let steering = |letter: char| letter != '\n' && (letter.is_control() || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
        prop_assert!(!line.contains(steering));
        let quotes = line.matches(['“', '”']).count();
        prop_assert_eq!(quotes, 2, "a quote ends where it ends: {}", line);
    }
}

#[test]
fn a_page_is_data_too() {
    let page: Page = permission_page(&permission(&Ring::one().head()), None, &());
    let value = serde_json::to_value(&page).unwrap();
    assert_eq!(
        value["title"]["spans"][0],
        json!({"ours": "Let the agent "})
    );
    assert_eq!(value["title"]["spans"][1]["quote"]["source"], "settings");
}
