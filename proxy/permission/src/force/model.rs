//! A model of what terms let happen, asked about many calls: whatever executor.json says, what is in force lets nothing happen that the
//! signature does not, and nothing that executor.json does not where it narrows.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{Case, base, effective};
use super::{Force, Terms};
use crate::document::{Audience, Cost, Payloads, PolicyTerms};
use crate::fixture::{Ring, phone, signed};
use crate::{Approval, Danger, Kind, Mode, Validation, check_arguments};

/// One question.
#[derive(Clone, Debug)]
struct Probe {
    tool: &'static str,
    arguments: Value,
    used: u64,
    recent: u32,
    items: u64,
    bytes: u64,
    public: bool,
    fits_schema: bool,
    known_members: bool,
    path: &'static str,
}

/// How hard a call is: the higher, the less is allowed. 0 runs.
fn hardness(terms: &Terms, probe: &Probe) -> u32 {
    const REFUSED: u32 = 100;
    let Some(server) = terms.servers.first() else {
        return REFUSED;
    };
    let Some(tool) = server.tools.iter().find(|tool| tool.name == probe.tool) else {
        return REFUSED;
    };
    let scope = tool.scope_on("files");
    if terms
        .scopes
        .as_ref()
        .is_some_and(|scopes| !scopes.contains(&scope))
    {
        return REFUSED;
    }
    if probe.public && tool.audience == Audience::Agent {
        return REFUSED;
    }
    if !probe.fits_schema && tool.validation == Validation::Strict {
        return REFUSED;
    }
    if !probe.known_members && !tool.open_arguments {
        return REFUSED;
    }
    if tool.max_items.is_some_and(|most| probe.items > most)
        || probe.bytes > tool.max_bytes.unwrap_or(2_000_000)
    {
        return REFUSED;
    }
    let limits: Vec<_> = tool.arguments.iter().map(|limit| limit.0.clone()).collect();
    if check_arguments(&limits, &probe.arguments).is_err() {
        return REFUSED;
    }
    if tool.limits.max_calls.is_some_and(|most| probe.used >= most) {
        return REFUSED;
    }
    if tool
        .limits
        .rate
        .is_some_and(|rate| probe.recent >= rate.max)
    {
        return REFUSED;
    }
    let mut hard = 0;
    if tool.kind == Kind::Write {
        if terms.mode == Mode::ReadOnly {
            return REFUSED;
        }
        let writes = |policy: &PolicyTerms| {
            policy.allow_writes.iter().any(|rule| rule == probe.path)
                && !policy.deny_writes.iter().any(|rule| rule == probe.path)
        };
        if !terms.write_policies.iter().all(writes) {
            return REFUSED;
        }
        hard += 1;
        if terms.mode == Mode::Ask {
            hard += 4;
        }
        if tool.require_copy {
            hard += 1;
        }
    }
    let dangerous = match &tool.danger {
        Danger::Never => false,
        Danger::Always => true,
        // The model's schemas are `{"const": arguments}`.
        Danger::When(schema) => schema.get("const") == Some(&probe.arguments),
    };
    if dangerous {
        hard += match tool.approval {
            Approval::None => 2,
            Approval::Person => 8,
            Approval::Passkey => 16,
        };
    }
    if let Some(Cost::Units(units)) = &tool.cost {
        hard += units / 1000;
    }
    hard
}

fn evidence(terms: &Terms) -> (bool, bool, u32) {
    let book = &terms.book;
    (
        book.reads,
        book.payloads == Payloads::Keep,
        book.retain.unwrap_or(u32::MAX),
    )
}

fn arguments() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"path": "/a"})),
        Just(json!({"path": "/b"})),
        Just(json!({"n": 3})),
        Just(json!({}))
    ]
}

fn probe() -> impl Strategy<Value = Probe> {
    let numbers = (
        0u64..4,
        0u32..4,
        0u64..4,
        prop_oneof![Just(1u64), Just(3_000_000)],
    );
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let tool = prop_oneof![Just("read_text_file"), Just("write_file"), Just("new_tool")];
    let path = prop_oneof![Just("notes/**"), Just("x/**"), Just("y/**")];
    (tool, arguments(), numbers, flags, path).prop_map(|(tool, arguments, numbers, flags, path)| {
        Probe {
            tool,
            arguments,
            used: numbers.0,
            recent: numbers.1,
            items: numbers.2,
            bytes: numbers.3,
            public: flags.0,
            fits_schema: flags.1,
            known_members: flags.2,
            path,
        }
    })
}

/// A member of a tool with a value, or left out.
fn tool() -> impl Strategy<Value = Value> {
    let maybe = |values: Vec<Value>| proptest::option::of(proptest::sample::select(values));
    let danger = vec![
        json!("always"),
        json!({"const": {"path": "/a"}}),
        json!({"const": {}}),
    ];
    let limits = vec![
        json!([{"pointer": "/path", "op": "equals", "value": "/a"}]),
        json!([{"pointer": "/n", "op": "max", "value": 2}]),
        json!([{"pointer": "/n", "op": "absent"}]),
    ];
    let counts = vec![
        json!({"max_calls": 1}),
        json!({"max_calls": 3}),
        json!({"rate": {"per_seconds": 60, "max": 1}}),
        json!({"max_calls": 2, "rate": {"per_seconds": 60, "max": 2}}),
    ];
    let first = (
        proptest::sample::select(vec![json!("read"), json!("write")]),
        maybe(danger),
        maybe(vec![json!("person"), json!("passkey")]),
        maybe(vec![json!("warn")]),
        maybe(vec![json!(true)]),
        maybe(counts),
    );
    let second = (
        maybe(limits),
        maybe(vec![json!(1), json!(2)]),
        maybe(vec![json!(10), json!(4_000_000)]),
        maybe(vec![json!(1000), json!(5000)]),
        maybe(vec![json!(true)]),
        maybe(vec![json!("public")]),
    );
    (first, second).prop_map(|(first, second)| {
        let mut tool = json!({"kind": first.0});
        let members = [
            ("danger", first.1),
            ("approval", first.2),
            ("validation", first.3),
            ("open_arguments", first.4),
            ("limits", first.5),
            ("arguments", second.0),
            ("max_items", second.1),
            ("max_bytes", second.2),
            ("cost", second.3),
            ("require_copy", second.4),
            ("audience", second.5),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                tool[name] = value;
            }
        }
        tool
    })
}

/// A whole permission of random terms, or what executor.json says.
fn terms() -> impl Strategy<Value = Value> {
    let mode = proptest::sample::select(vec!["auto", "ask", "read_only"]);
    let scopes = proptest::option::of(proptest::sample::subsequence(
        vec!["files:read", "files:write"],
        0..=2,
    ));
    let rules = || proptest::sample::subsequence(vec!["notes/**", "x/**", "y/**"], 0..=3);
    let policy = proptest::option::of((rules(), rules()));
    let book = (any::<bool>(), any::<bool>(), proptest::option::of(1u32..3));
    let extra = any::<bool>();
    (tool(), tool(), mode, scopes, policy, book, extra).prop_map(|(read, write, mode, scopes, policy, book, extra)| {
        let mut value = base(&Ring::two());
        let named = |mut tool: Value, name: &str| {
            tool["name"] = json!(name);
            tool["definition"] = json!(crate::fixture::hash(name));
            tool
        };
        let mut tools = vec![named(read, "read_text_file"), named(write.clone(), "write_file")];
        if extra {
            tools.push(named(write, "new_tool"));
        }
        value["servers"][0]["tools"] = json!(tools);
        value["mode"] = json!(mode);
        if let Some(scopes) = scopes {
            value["scopes"] = json!(scopes);
        }
        match policy {
            Some((allow, deny)) => {
                value["write_policy"] = json!({"version": 1, "allow_writes": allow, "deny_writes": deny, "shell": "disabled"});
            }
            None => drop(value.as_object_mut().unwrap().remove("write_policy")),
        }
        value["book"]["reads"] = json!(book.0);
        if book.1 {
            value["book"]["payloads"] = json!("digest");
        }
        if let Some(days) = book.2 {
            value["book"]["retain"] = json!(days);
        }
        value
    })
}

fn judged(signed_value: &Value, now: &Value) -> (Terms, Terms, Force) {
    let mut case = Case::new();
    case.recorded = vec![signed(signed_value.clone(), &phone())];
    case.effective = effective(now.clone());
    let force = case.judge().unwrap();
    (
        effective(signed_value.clone()).terms,
        case.effective.terms,
        force,
    )
}

/// Whether the differences are all of the kind that takes away.
fn only_narrows(force: &Force) -> bool {
    force.changed.iter().all(|change| !change.is_ignored())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_executor_json_says_nothing_beyond_the_signature_happens(
        signed in terms(), now in terms(), probes in proptest::collection::vec(probe(), 40)
    ) {
        let (signed, now, force) = judged(&signed, &now);
        for probe in &probes {
            let in_force = hardness(&force.terms, probe);
            prop_assert!(in_force >= hardness(&signed, probe), "{probe:?} {force:?}");
            if only_narrows(&force) {
                prop_assert!(in_force >= hardness(&now, probe), "narrowing counts: {probe:?} {force:?}");
            }
        }
        prop_assert!(keeps_evidence(&force, &signed));
        for (server, grant) in &force.permission.servers {
            prop_assert_eq!(server, "files");
            prop_assert!(grant.identity.is_some());
        }
    }

    #[test]
    fn what_is_in_force_written_back_is_in_force_unchanged(signed in terms(), now in terms()) {
        let (_, _, force) = judged(&signed, &now);
        let mut case = Case::new();
        case.recorded = vec![super::tests::body_signed(&signed)];
        case.effective = effective(now.clone());
        case.effective.terms = Terms { write_policies: force.terms.write_policies.clone(), ..force.terms.clone() };
        let again = case.judge().unwrap();
        prop_assert_eq!(&again.terms, &force.terms);
        prop_assert!(again.changed.iter().all(|change| !change.is_ignored()), "{:?}", again.changed);
    }
}

/// Evidence is compared member by member: none of them is less than was signed.
fn keeps_evidence(force: &Force, signed: &Terms) -> bool {
    let (now, then) = (evidence(&force.terms), evidence(signed));
    now.0 >= then.0 && now.1 >= then.1 && now.2 >= then.2
}
