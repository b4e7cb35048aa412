//! NAM: names are matched exactly, lists come whole and in order.

use countersign_tests::client::{refusal, text};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

fn tools(names: &[&str]) -> Vec<String> {
    names
        .iter()
        .map(|name| {
            json!({"name": name, "description": "d", "inputSchema": {"type": "object"}}).to_string()
        })
        .collect()
}

fn listed(world: &World) -> Vec<Value> {
    crate::lists::of_the_server(world.connect().tools())
}

#[test]
fn nam_66_odd_names_are_matched_exactly() {
    let shared = "n".repeat(64);
    let (one, two) = (format!("{shared}-first"), format!("{shared}-other"));
    let long = "k".repeat(2_000);
    let names = [
        one.as_str(),
        two.as_str(),
        "with.dot",
        "with/slash",
        "with space",
        "Ünïcode→",
        "read_file",
        "read_fi1e",
        "r\u{435}ad_file",
        "READ_FILE",
        " read_file",
        "quote\"back\\slash",
        long.as_str(),
    ];
    let (world, hostile) = Hostile::world(&json!({"tools_raw": tools(&names)}));
    let mut client = world.connect();
    let seen: Vec<Value> = crate::lists::of_the_server(client.tools())
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(seen, names.map(|name| json!(name)));
    for name in names {
        assert_eq!(text(&client.call(name, &json!({}))), format!("ran {name}"));
    }
    assert_eq!(hostile.ran(), names);
    for unlisted in [
        "read-file",
        "Read_File",
        "read_file ",
        "with\u{a0}space",
        &shared,
        "re\u{301}ad_file",
        "",
    ] {
        assert!(
            refusal(&client.call(unlisted, &json!({}))).is_some(),
            "{unlisted:?}"
        );
    }
    assert_eq!(hostile.ran().len(), names.len());
    assert!(client.close().success());
    assert_eq!(
        world
            .recorded()
            .iter()
            .filter(|call| call.outcomes == ["ok"])
            .count(),
        names.len()
    );
}

#[test]
fn nam_66_a_hidden_name_hides_only_itself() {
    let (world, hostile) = Hostile::world(
        &json!({"tools_raw": tools(&["delete", "Delete", "d\u{435}lete", "delete "])}),
    );
    world.must(&["tool", "set", "s", "delete", "--hidden"]);
    let mut client = world.connect();
    assert!(refusal(&client.call("delete", &json!({}))).is_some());
    assert_eq!(text(&client.call("Delete", &json!({}))), "ran Delete");
    assert_eq!(hostile.ran(), ["Delete"]);
    let names: Vec<Value> = crate::lists::of_the_server(client.tools())
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(
        names,
        [json!("Delete"), json!("d\u{435}lete"), json!("delete ")]
    );
}

#[test]
fn nam_68_a_long_server_name_changes_no_tool_name() {
    let name = "a".repeat(32);
    let tool = "t".repeat(64);
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({"tools_raw": tools(&[&tool])}));
    world.server(&name, &hostile.command);
    world.agent("a");
    let mut client = world.run("a", &name);
    client.initialize();
    assert_eq!(client.tools()[0]["name"], json!(tool));
    assert_eq!(text(&client.call(&tool, &json!({}))), format!("ran {tool}"));
    let said = world.fails(&["server", "add", &"a".repeat(33), "--", "true"]);
    assert!(said.stderr.contains(&"a".repeat(33)), "{said:?}");
}

#[test]
fn nam_69_two_servers_with_the_same_tool_keep_apart() {
    let world = World::new();
    let servers: Vec<Hostile> = ["one", "two"]
        .iter()
        .map(|name| {
            let hostile = Hostile::new(&world, name, &json!({"tools_raw": tools(&["search"])}));
            world.server(name, &hostile.command);
            hostile
        })
        .collect();
    world.must(&["tool", "set", "one", "search", "--hidden"]);
    world.agent("a");
    let mut one = world.run("a", "one");
    let mut two = world.run("a", "two");
    one.initialize();
    two.initialize();
    assert!(refusal(&one.call("search", &json!({}))).is_some());
    assert_eq!(text(&two.call("search", &json!({}))), "ran search");
    assert!(servers[0].ran().is_empty());
    assert_eq!(servers[1].ran(), ["search"]);
}

#[test]
fn nam_duplicate_names_in_one_list_take_the_stricter() {
    let double = [
        r#"{"name":"twin","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}}}}"#.to_owned(),
        r#"{"name":"twin","inputSchema":{"type":"object","properties":{"x":{"type":"integer","maximum":5}},"required":["x"]}}"#.to_owned(),
        r#"{"name":"other","inputSchema":{"type":"object"}}"#.to_owned(),
    ];
    let (world, hostile) = Hostile::world(&json!({"tools_raw": double}));
    let mut client = world.connect();
    client.tools();
    // What either of the two would refuse does not run.
    for arguments in [json!({}), json!({"x": 9})] {
        assert!(
            refusal(&client.call("twin", &arguments)).is_some(),
            "{arguments}"
        );
    }
    assert!(hostile.ran().is_empty());
    assert_eq!(text(&client.call("other", &json!({}))), "ran other");
}

#[test]
fn nam_71_fourteen_tools_on_two_pages() {
    let names: Vec<String> = (0..14).map(|n| format!("tool-{n}")).collect();
    let raw = tools(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (world, hostile) = Hostile::world(&json!({"tools_raw": raw, "page_size": 7}));
    let mut client = world.connect();
    let first = client.request("tools/list", &json!({}));
    assert_eq!(first["result"]["tools"].as_array().map(Vec::len), Some(7));
    let cursor = first["result"]["nextCursor"].clone();
    assert!(cursor.is_string(), "{first}");
    let second = client.request("tools/list", &json!({"cursor": cursor}));
    assert!(second["result"].get("nextCursor").is_none(), "{second}");
    let rest =
        crate::lists::of_the_server(second["result"]["tools"].as_array().expect("tools").clone());
    assert_eq!(rest.len(), 7);
    assert_eq!(text(&client.call("tool-13", &json!({}))), "ran tool-13");
    assert_eq!(hostile.ran(), ["tool-13"]);
    assert!(refusal(&client.request("tools/list", &json!({"cursor": "no such page"}))).is_some());
    client.fence();
}

#[test]
fn nam_73_pages_joined_for_clients_that_read_only_the_first() {
    let names: Vec<String> = (0..14).map(|n| format!("tool-{n}")).collect();
    let raw = tools(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (world, _) = Hostile::world(&json!({"tools_raw": raw, "page_size": 5}));
    world.edit(|settings| settings["servers"]["s"]["pages"] = json!("one"));
    let mut client = world.connect();
    let answer = client.request("tools/list", &json!({}));
    assert!(answer["result"].get("nextCursor").is_none(), "{answer}");
    let seen: Vec<Value> =
        crate::lists::of_the_server(answer["result"]["tools"].as_array().expect("tools").clone())
            .iter()
            .map(|tool| tool["name"].clone())
            .collect();
    assert_eq!(
        seen,
        names.iter().map(|name| json!(name)).collect::<Vec<_>>()
    );
}

#[test]
fn nam_m27_hidden_tools_leave_order_and_cursors_as_they_are() {
    let names: Vec<String> = (0..9).map(|n| format!("tool-{n}")).collect();
    let raw = tools(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (world, hostile) = Hostile::world(&json!({"tools_raw": raw, "page_size": 3}));
    for hidden in ["tool-3", "tool-4", "tool-5", "tool-8"] {
        world.must(&["tool", "set", "s", hidden, "--hidden"]);
    }
    let mut client = world.connect();
    let mut pages = Vec::new();
    let mut params = json!({});
    loop {
        let answer = client.request("tools/list", &params);
        let page = crate::lists::of_the_server(
            answer["result"]["tools"].as_array().expect("tools").clone(),
        );
        pages.push(
            page.iter()
                .map(|tool| tool["name"].as_str().expect("a name").to_owned())
                .collect::<Vec<_>>(),
        );
        match answer["result"].get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(
        pages,
        [
            vec!["tool-0", "tool-1", "tool-2"],
            vec![],
            vec!["tool-6", "tool-7"]
        ]
    );
    assert!(refusal(&client.call("tool-4", &json!({}))).is_some());
    assert!(hostile.ran().is_empty());
    assert_eq!(listed(&world).len(), 5);
}
