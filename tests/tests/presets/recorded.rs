//! Recipes for services nobody reaches from a test: their real tools, answers of the shape their servers give.

use countersign_tests::binary::tests_file;
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

use super::{must_show, shown, under, with};

/// A world whose server `s` has the recorded tools of `name` and answers a read from the file `answer`.
fn recorded(name: &str, preset: &str, read: &str) -> (World, Hostile) {
    let world = World::new();
    let text = std::fs::read_to_string(tests_file("cases/tool_schemas.json")).expect("the schemas");
    let schemas: Value = serde_json::from_str(&text).expect("JSON");
    let tools: Vec<String> = schemas[name]
        .as_array()
        .expect("its tools")
        .iter()
        .map(Value::to_string)
        .collect();
    let specification = json!({"tools_raw": tools, "answers": {read: world.text_path("answer")}});
    let server = Hostile::new(&world, "s", &specification);
    under(&world, preset, &[], &server.command);
    (world, server)
}

fn says(world: &World, document: &Value) {
    std::fs::write(world.path("answer"), document.to_string()).expect("written");
}

#[test]
fn a_file_on_github_is_compared_by_its_text_and_not_by_its_token() {
    let (world, server) = recorded("github", "github", "get_file_contents");
    world.must(&[
        "tool",
        "set",
        "s",
        "create_or_update_file",
        "--danger",
        "always",
    ]);
    let file = |text: &str, token: &str| {
        json!({"type": "file", "path": "a.txt", "sha": "s1", "content": text,
               "download_url": format!("https://raw.example.org/a.txt?token={token}")})
    };
    says(&world, &file("one\ntwo\n", "A"));
    let mut client = world.connect();
    let new = json!({"owner": "o", "repo": "r", "path": "a.txt", "branch": "main", "message": "m", "content": "one\nzwei\n"});
    let call = with(&new, "sha", &json!("s1"));
    let first = must_show(&client.call("create_or_update_file", &call));
    assert_eq!(first.kind(), "reads");
    assert_eq!(first.preview["diff"], " one\n-two\n+zwei\n");
    assert_eq!(
        server.calls().last().expect("a read")["arguments"],
        json!({"owner": "o", "repo": "r", "path": "a.txt", "branch": "main"})
    );
    // Another text is a change; another token is none.
    says(&world, &file("one\n2\n", "B"));
    let second = must_show(&client.call("create_or_update_file", &first.confirmed(&call)));
    assert!(second.changed);
    assert_eq!(second.preview["diff"], " one\n-2\n+zwei\n");
    says(&world, &file("one\n2\n", "C"));
    let done = client.call("create_or_update_file", &second.confirmed(&call));
    assert!(
        done.to_string().contains("ran create_or_update_file"),
        "{done}"
    );
    // A new file has nothing to be read.
    let reads = server.ran().len();
    let asked = must_show(&client.call("create_or_update_file", &new));
    assert_eq!(asked.kind(), "arguments_only");
    assert_eq!(server.ran().len(), reads);
}

#[test]
fn a_pull_request_is_approved_and_merged_in_two_steps() {
    let (world, server) = recorded("github", "github", "get_pull_request");
    let mut client = world.connect();
    let request = |head: &str, mergeable: Value| json!({"number": 1, "head": {"sha": head}, "mergeable": mergeable});
    says(&world, &request("a1", Value::Null));
    let merge = json!({"owner": "o", "repo": "r", "pull_number": 1});
    let first = must_show(&client.call("merge_pull_request", &merge));
    assert!(first.current(0).contains("a1"), "{:?}", first.preview);
    assert_eq!(server.ran(), ["get_pull_request"]);
    says(&world, &request("b2", json!(true)));
    let second = must_show(&client.call("merge_pull_request", &first.confirmed(&merge)));
    assert!(second.changed, "another head");
    says(&world, &request("b2", json!(false)));
    let done = client.call("merge_pull_request", &second.confirmed(&merge));
    assert!(
        done.to_string().contains("ran merge_pull_request"),
        "{done}"
    );
    for (event, held) in [
        ("COMMENT", false),
        ("REQUEST_CHANGES", false),
        ("APPROVE", true),
    ] {
        let mut review = with(&merge, "body", &json!("fine"));
        review["event"] = json!(event);
        let answer = client.call("create_pull_request_review", &review);
        assert_eq!(shown(&answer).is_some(), held, "{event}: {answer}");
    }
}

#[test]
fn a_page_of_notion_is_compared_and_its_request_id_is_not() {
    let (world, server) = recorded("notion", "notion", "API-retrieve-page-markdown");
    let mut client = world.connect();
    let page = |text: &str, id: &str| json!({"object": "page_markdown", "markdown": text, "request_id": id});
    says(&world, &page("# Plan\nold\n", "r1"));
    let id = "0123abcd-0000-4000-8000-000000000000";
    let replace = json!({"page_id": id, "type": "replace_content", "replace_content": {"new_str": "# Plan\nnew\n"}});
    let first = must_show(&client.call("API-update-page-markdown", &replace));
    assert_eq!(first.preview["diff"], " # Plan\n-old\n+new\n");
    says(&world, &page("# Plan\nold\n", "r2"));
    let done = client.call("API-update-page-markdown", &first.confirmed(&replace));
    assert!(
        done.to_string().contains("ran API-update-page-markdown"),
        "{done}"
    );
    for (tool, arguments, held) in [
        (
            "API-update-page-markdown",
            json!({"page_id": id, "type": "update_content", "update_content": {"content_updates": []}}),
            false,
        ),
        ("API-delete-a-block", json!({"block_id": "b"}), true),
        (
            "API-update-a-block",
            json!({"block_id": "b", "archived": true}),
            true,
        ),
        (
            "API-update-a-block",
            json!({"block_id": "b", "archived": false}),
            false,
        ),
        (
            "API-update-a-block",
            json!({"block_id": "b", "type": {}}),
            false,
        ),
        (
            "API-patch-page",
            json!({"page_id": "p", "in_trash": true}),
            true,
        ),
        (
            "API-patch-page",
            json!({"page_id": "p", "archived": true}),
            true,
        ),
        (
            "API-patch-page",
            json!({"page_id": "p", "properties": {}}),
            false,
        ),
        ("API-post-search", json!({"query": "x"}), false),
    ] {
        let answer = client.call(tool, &arguments);
        assert_eq!(shown(&answer).is_some(), held, "{tool}: {answer}");
        let ran = answer.to_string().contains(&format!("ran {tool}"));
        assert_eq!(ran, !held, "{tool}: {answer}");
    }
    assert!(client.close().success());
    assert!(server.ran().contains(&"API-retrieve-a-block".to_owned()));
}
