//! The class of every member of executor.json: what a signature covers, what may only take away, what is free. Enforces nothing.

/// What a change of a member means for a signed permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Part of what is signed: a change counts only after a new signature.
    Signed,
    /// Not signed; it can only take away, so a change counts at once.
    Narrowing,
    /// Grants nothing and takes nothing.
    Free,
}

/// Every member by path; `*` stands for a name, `[]` for an element. A test holds the table equal to the types.
pub const CLASSES: &[(&str, Class)] = &[
    ("$schema", Class::Free),
    ("version", Class::Free),
    ("executor.id", Class::Signed),
    ("executor.name", Class::Free),
    ("executor.development", Class::Narrowing),
    ("enabled", Class::Narrowing),
    ("secrets", Class::Free),
    ("servers.*.enabled", Class::Narrowing),
    ("servers.*.command", Class::Signed),
    ("servers.*.args", Class::Signed),
    ("servers.*.cwd", Class::Signed),
    ("servers.*.env.*", Class::Signed),
    ("servers.*.url", Class::Signed),
    ("servers.*.headers.*", Class::Signed),
    ("servers.*.preset", Class::Signed),
    ("servers.*.identity", Class::Signed),
    ("servers.*.pass", Class::Signed),
    ("servers.*.methods", Class::Signed),
    ("servers.*.pages", Class::Free),
    ("servers.*.other_members", Class::Signed),
    ("servers.*.context", Class::Signed),
    ("servers.*.problems.*.code", Class::Free),
    ("servers.*.problems.*.status", Class::Free),
    ("servers.*.tools.*.kind", Class::Signed),
    ("servers.*.tools.*.hidden", Class::Narrowing),
    ("servers.*.tools.*.scope", Class::Signed),
    ("servers.*.tools.*.danger", Class::Signed),
    ("servers.*.tools.*.approval", Class::Signed),
    ("servers.*.tools.*.paths[].pointer", Class::Signed),
    ("servers.*.tools.*.paths[].effect", Class::Signed),
    ("servers.*.tools.*.preview.argument.pointer", Class::Signed),
    ("servers.*.tools.*.preview.argument.value", Class::Signed),
    ("servers.*.tools.*.preview.reads[].tool", Class::Signed),
    ("servers.*.tools.*.preview.reads[].arguments", Class::Signed),
    ("servers.*.tools.*.preview.reads[].when", Class::Signed),
    ("servers.*.tools.*.preview.reads[].ignore", Class::Signed),
    ("servers.*.tools.*.preview.reads[].text", Class::Signed),
    ("servers.*.tools.*.preview.diff.new", Class::Signed),
    ("servers.*.tools.*.limits.max_calls", Class::Signed),
    ("servers.*.tools.*.limits.rate.per_seconds", Class::Signed),
    ("servers.*.tools.*.limits.rate.max", Class::Signed),
    ("servers.*.tools.*.arguments[].pointer", Class::Signed),
    ("servers.*.tools.*.arguments[].op", Class::Signed),
    ("servers.*.tools.*.arguments[].value", Class::Signed),
    ("servers.*.tools.*.max_items", Class::Signed),
    ("servers.*.tools.*.max_bytes", Class::Signed),
    ("servers.*.tools.*.cost", Class::Signed),
    ("servers.*.tools.*.replay", Class::Signed),
    ("servers.*.tools.*.validation", Class::Signed),
    ("servers.*.tools.*.open_arguments", Class::Signed),
    ("servers.*.tools.*.require_copy", Class::Signed),
    ("servers.*.tools.*.audience", Class::Signed),
    ("servers.*.tools.*.client_token", Class::Signed),
    ("servers.*.tools.*.verb", Class::Free),
    ("agents.*.key", Class::Signed),
    ("agents.*.servers", Class::Signed),
    ("agents.*.scopes", Class::Signed),
    ("agents.*.expires_at", Class::Signed),
    ("agents.*.mode", Class::Signed),
    ("agents.*.requires_approval", Class::Narrowing),
    ("agents.*.workspace", Class::Signed),
    ("agents.*.write_policy.version", Class::Signed),
    ("agents.*.write_policy.metadata", Class::Signed),
    ("agents.*.write_policy.allow_writes", Class::Signed),
    ("agents.*.write_policy.deny_writes", Class::Signed),
    ("agents.*.write_policy.shell", Class::Signed),
    ("agents.*.turn_idle_minutes", Class::Signed),
    ("disabled_tools", Class::Narrowing),
    ("disabled_servers", Class::Narrowing),
    ("person_write_servers", Class::Signed),
    ("buckets.key.size", Class::Free),
    ("buckets.key.per_minute", Class::Free),
    ("buckets.person.size", Class::Free),
    ("buckets.person.per_minute", Class::Free),
    ("buckets.network.size", Class::Free),
    ("buckets.network.per_minute", Class::Free),
    ("buckets.token.size", Class::Free),
    ("buckets.token.per_minute", Class::Free),
    ("book.reads", Class::Signed),
    ("book.payloads", Class::Signed),
    ("book.retain", Class::Signed),
    ("book.allow_network_folder", Class::Signed),
    ("copies[].folder", Class::Signed),
    ("copies[].grade", Class::Signed),
    ("copies[].witness", Class::Signed),
    ("copies[].key", Class::Signed),
    ("approval.rp_id", Class::Signed),
    ("approval.port", Class::Free),
    ("approval.hold_seconds", Class::Free),
    ("limits.frame_bytes", Class::Free),
    ("limits.depth", Class::Free),
    ("limits.start_seconds", Class::Free),
    ("limits.call_seconds", Class::Free),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// Collects the leaves of the schema as paths. A member whose schema is free-form (`type: object` without members) is a leaf.
    fn leaves(root: &Value, node: &Value, path: &str, into: &mut BTreeSet<String>) {
        let node = match node.get("$ref").and_then(Value::as_str) {
            Some(target) => root
                .pointer(target.trim_start_matches('#'))
                .expect("a local reference"),
            None => node,
        };
        let branches = node.get("anyOf").and_then(Value::as_array);
        if let Some(branch) = branches.and_then(|all| {
            all.iter()
                .find(|b| b.get("$ref").is_some() && all.len() == 2)
        }) {
            return leaves(root, branch, path, into);
        }
        if let Some(properties) = node.get("properties").and_then(Value::as_object) {
            for (name, member) in properties {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                leaves(root, member, &path, into);
            }
            return;
        }
        if let Some(member @ Value::Object(_)) = node.get("additionalProperties") {
            return leaves(root, member, &format!("{path}.*"), into);
        }
        if let Some(items) = node.get("items")
            && items.get("$ref").is_some_and(|target| {
                root.pointer(target.as_str().unwrap().trim_start_matches('#'))
                    .unwrap()
                    .get("properties")
                    .is_some()
            })
        {
            return leaves(root, items, &format!("{path}[]"), into);
        }
        into.insert(path.to_owned());
    }

    #[test]
    fn every_member_has_a_class_and_every_class_a_member() {
        let schema = crate::settings::schema();
        let mut members = BTreeSet::new();
        leaves(&schema, &schema, "", &mut members);
        let table: BTreeSet<String> = CLASSES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(table.len(), CLASSES.len(), "no member twice");
        let missing: Vec<_> = members.difference(&table).collect();
        let extra: Vec<_> = table.difference(&members).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "without a class: {missing:?}; without a member: {extra:?}"
        );
        assert!(members.len() > 80, "the walk found the members");
    }
}
