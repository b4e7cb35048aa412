//! ENC: text and numbers arrive as they were sent.

use countersign_tests::client::text;
use countersign_tests::hostile::Hostile;
use serde_json::json;

fn check(arguments: &str) {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    client.line(&format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
    ));
    let answer = client.answer(&json!(7));
    let seen = text(&answer);
    assert!(
        seen.contains(arguments),
        "sent {arguments}, the server read {seen}"
    );
    let frame = client.raw_answer(&json!(7));
    assert!(
        frame.contains(arguments),
        "sent {arguments}, the client read {frame}"
    );
    assert_eq!(hostile.ran(), ["echo"]);
}

#[test]
fn enc_22_chinese_arrows_stars() {
    check(r#"{"text":"中文 → ★ ☃ \u4e2d 😀 العربية"}"#);
}

#[test]
fn enc_24_composed_and_decomposed_czech_stay_apart() {
    check("{\"text\":\"P\u{159}\u{ed}li\u{161} r\u{30c}i\u{301}s\u{30c}\"}");
}

#[test]
fn enc_25_numbers_keep_every_digit() {
    check(
        r#"{"value":[9007199254740993,-9007199254740993,123456789012345678901234567890,1.0,1e2,1E-7,0.10000000000000000001,-0]}"#,
    );
}

#[test]
fn enc_25_an_integer_over_2_53_is_an_integer() {
    check(r#"{"n":9007199254740993}"#);
}

#[test]
fn enc_escapes_stay_as_they_were_written() {
    check(r#"{"text":"\u00e9\/\b\f\t\"\\\ud83d\ude00"}"#);
}
