//! The strict envelope: what is refused and with which id, what comes out as it went in.

use super::*;
use proptest::prelude::*;

const DEPTH: usize = 128;

fn check_refused(line: &str, id: Option<&str>, meant: Meant) {
    let rejected = judge(line.as_bytes(), DEPTH).expect_err(line);
    assert_eq!(
        rejected
            .id
            .as_deref()
            .map(String::from_utf8_lossy)
            .as_deref(),
        id,
        "{line}: {}",
        rejected.reason
    );
    assert_eq!(rejected.meant, meant, "{line}: {}", rejected.reason);
}

#[test]
fn m3_members_of_params_that_decide_have_no_twin_in_another_case() {
    for twin in [
        "Name",
        "NAME",
        "arguMents",
        "Uri",
        "ta\u{17f}k",
        "TAS\u{212a}",
        "_META",
        "Cursor",
    ] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"read_it","{twin}":"delete_all"}}}}"#
        );
        let rejected = judge(line.as_bytes(), DEPTH).expect_err(&line);
        assert_eq!(rejected.id.as_deref(), Some(&b"7"[..]), "{line}");
    }
    let fine = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","vendor":1,"Vendor":2,"arguments":{"Name":1,"name":2}}}"#;
    assert!(judge(fine.as_bytes(), DEPTH).is_ok());
}

#[test]
fn m9_half_an_emoji_in_a_result_passes_and_in_a_request_does_not() {
    let text =
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":"x\ud83d","b":"\ud83d\u0041","c":"\ude00"}}"#;
    assert!(matches!(
        super::judge_from_server(text.as_bytes(), DEPTH),
        Ok(Judged::One(_))
    ));
    assert!(judge(text.as_bytes(), DEPTH).is_err());
    let name = r#"{"jsonrpc":"2.0","id":1,"result":{"\ud83d":1}}"#;
    assert!(super::judge_from_server(name.as_bytes(), DEPTH).is_err());
}

#[test]
fn m3_m4_m5_the_smuggling_table() {
    use Meant::{Answer, Notification, Request, Unparsable};
    let call = r#""params":{"name":"real","arguments":{}}"#;
    for (line, id, meant) in [
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call",{call}}}"#), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope","name":"real"}}"#.to_owned(), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope","\u006eame":"real"}}"#.to_owned(), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":[{"b":{"c":1,"c":2}}]}}"#.to_owned(), Some("1"), Request),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/call",{call}}}"#), Some("1"), Request),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call",{call}}}"#), Some("1"), Request),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"ID":2,"method":"tools/call",{call}}}"#), None, Request),
        (format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"PARAM\u{17f}\":1,{call}}}"), Some("1"), Request),
        (format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{{\"a\":\r{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",{call}}}\r}}}}"), None, Notification),
        (format!("{{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\r{call}}}"), Some("4"), Request),
        (format!(r#"{{"jsonrpc":"2.0","id":null,"method":"tools/call",{call}}}"#), None, Request),
        (format!(r#"{{"jsonrpc":"2.0","id":1.0,"method":"tools/call",{call}}}"#), None, Request),
        (format!(r#"{{"jsonrpc":"2.0","id":1e2,"method":"tools/call",{call}}}"#), None, Request),
        (format!(r#"{{"jsonrpc":"2.0","id":-0,"method":"tools/call",{call}}}"#), None, Request),
        (format!(r#"{{"jsonrpc":"2.0","id":true,"method":"tools/call",{call}}}"#), None, Request),
        (format!(r#"{{"jsonrpc":"2.0","id":{{}},"method":"tools/call",{call}}}"#), None, Request),
        (format!(r#"{{"id":1,"method":"tools/call",{call}}}"#), Some("1"), Request),
        (format!(r#"{{"jsonrpc":"1.0","id":1,"method":"tools/call",{call}}}"#), Some("1"), Request),
        (format!(r#"{{"jsonrpc":2.0,"id":1,"method":"tools/call",{call}}}"#), Some("1"), Request),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call",{call}}} {{}}"#), None, Unparsable),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#.to_owned(), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}"#.to_owned(), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","method":"notifications/x","params":[]}"#.to_owned(), None, Notification),
        (format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",{call}}}"), None, Unparsable),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":NaN}}"#.to_owned(), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":-Infinity}}"#.to_owned(), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":01}}"#.to_owned(), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#.to_owned(), Some("1"), Request),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#.to_owned(), Some("1"), Answer),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#.to_owned(), Some("1"), Answer),
        (r#"{"jsonrpc":"2.0","id":1}"#.to_owned(), Some("1"), Answer),
        (r#"{"jsonrpc":"2.0","id":1,"result":[]}"#.to_owned(), Some("1"), Answer),
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#.to_owned(), Some("1"), Answer),
        (r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#.to_owned(), Some("1"), Answer),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}"#.to_owned(), Some("1"), Answer),
        (r#"{"id":1,"result":{}}"#.to_owned(), Some("1"), Answer),
        (r#"{"jsonrpc":"2.0","id":{"a":1},"result":{}}"#.to_owned(), None, Answer),
        (r#"{"jsonrpc":"2.0"}"#.to_owned(), None, Unparsable),
        ("7".to_owned(), None, Unparsable),
        ("\"tools/call\"".to_owned(), None, Unparsable),
        (String::new(), None, Unparsable),
        ("listening on stdio 🚀".to_owned(), None, Unparsable),
        (r#"{"jsonrpc":"2.0","id":1,"method":"pi"#.to_owned(), None, Unparsable),
    ] {
        check_refused(&line, id, meant);
    }
}

#[test]
fn m6_depth_is_limited() {
    let nested = |levels: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{}{}}}}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    assert!(judge(nested(126).as_bytes(), DEPTH).is_ok());
    check_refused(&nested(127), Some("1"), Meant::Request);
    check_refused(&nested(100_000), Some("1"), Meant::Request);
}

#[test]
fn m3_what_is_unusual_and_unambiguous_passes() {
    for line in [
        r#"{"jsonrpc":"2.0","id":"","method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":-7,"method":"x","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1774232524389,"method":"x","x-trace":[1]}"#,
        r#"{"method":"x","jsonrpc":"2.0"}"#,
        r#" {"jsonrpc":"2.0","id":1,"result":{"methods":{"Method":1}}} "#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}"#,
    ] {
        assert!(
            matches!(judge(line.as_bytes(), DEPTH), Ok(Judged::One(_))),
            "{line}: {:?}",
            judge(line.as_bytes(), DEPTH)
        );
    }
    assert!(matches!(judge(b"[{},1]", DEPTH), Ok(Judged::Batch(elements)) if elements.len() == 2));
}

#[test]
fn m10_ids_are_kept_apart_and_as_they_are() {
    let ids: Vec<Option<Id>> = [r#""1""#, "1", r#""""#, r#""init-1""#, r#""\u0031""#]
        .iter()
        .map(|raw| Id::parse(raw.as_bytes()))
        .collect();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[0], ids[4]);
    assert!(ids.iter().all(Option::is_some));
    let line = "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0031\",\"method\":\"ping\"}\n";
    assert_eq!(again(line.trim_end()), line);
}

#[test]
fn m2_m5_an_escaped_name_is_emitted_decoded() {
    let line = r#"{"\u006dethod":"tools\/call","jsonrpc":"2.0","id":1,"note":"é\r"}"#;
    assert_eq!(
        again(line),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"note\":\"é\\r\"}\n"
    );
}

fn again(line: &str) -> String {
    let Ok(Judged::One(frame)) = judge(line.as_bytes(), DEPTH) else {
        panic!("{line}: {:?}", judge(line.as_bytes(), DEPTH))
    };
    String::from_utf8(emit::again(&frame)).unwrap()
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        prop::sample::select(vec![
            "0",
            "-0",
            "1.0",
            "1e2",
            "1E+2",
            "-0.50",
            "9007199254740993",
            "123456789012345678901234567890"
        ])
        .prop_map(str::to_owned),
        ".{0,12}".prop_map(|text| emit::quote(&text)),
        Just(r#""\u00e9\/\ud83d\ude80""#.to_owned()),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(inner, 0..6).prop_map(|items| {
                let members: Vec<String> = items
                    .iter()
                    .enumerate()
                    .map(|(n, item)| format!("\"k{} é\" : {item}", 9 - n))
                    .collect();
                format!("{{{}}}", members.join(" ,"))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn m9_bodies_and_unknown_members_keep_their_text(body in json(), other in json()) {
        let params = format!("{{\"z\":{body},\"a\":{other}}}");
        let line = format!(r#"{{"x-unknown":{other},"params":{params},"method":"vendor/thing","id":"i","jsonrpc":"2.0"}}"#);
        let line_out = again(&line);
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"vendor/thing\",\"params\":{params},\"x-unknown\":{other}}}\n");
        prop_assert_eq!(&line_out, &expected);
        prop_assert_eq!(again(line_out.trim_end()), expected);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{params}}}"#);
        prop_assert_eq!(again(&answer), format!("{answer}\n"));
    }

    #[test]
    fn m2_whatever_comes_in_a_line_goes_out(text in any::<Vec<u8>>()) {
        if let Ok(Judged::One(frame)) = judge(&text, DEPTH) {
            let line = emit::again(&frame);
            prop_assert_eq!(memchr::memchr2(b'\n', b'\r', &line), Some(line.len() - 1));
        }
    }
}
