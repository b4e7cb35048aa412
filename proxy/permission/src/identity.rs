//! Which server it is: what a permission pins so that another program under the same name is not the same server.
//! The facts (resolved program, digests) are found by the executor and handed in.

use serde::{Deserialize, Serialize};

use crate::Hash;

/// A server's identity as a structured value; its hash is over the RFC 8785 form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ServerIdentity {
    /// A child process.
    Command {
        /// The command as configured.
        command: String,
        /// Its arguments as configured.
        args: Vec<String>,
        /// What the command resolved to; absent when only the command line is pinned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<ProgramIdentity>,
        /// The package a runner such as npx or uvx starts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        package: Option<PackageIdentity>,
    },
    /// A remote server.
    Url {
        /// Its address.
        url: String,
    },
}

/// A resolved program file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramIdentity {
    /// Absolute path.
    pub path: String,
    /// SHA-256 of its bytes.
    pub digest: Hash,
}

/// A resolved package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageIdentity {
    /// Registry name.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// SHA-256 of its bytes, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Hash>,
}

impl ServerIdentity {
    /// SHA-256 over the RFC 8785 form.
    ///
    /// # Errors
    /// When the value has no canonical form; text members always have one.
    pub fn hash(&self) -> Result<Hash, serde_json::Error> {
        Ok(Hash::of(&serde_jcs::to_vec(self)?))
    }

    /// The identity by the command line alone; an address is all there is of a remote server.
    #[must_use]
    pub fn command_line(&self) -> Self {
        match self {
            Self::Command { command, args, .. } => Self::Command {
                command: command.clone(),
                args: args.clone(),
                program: None,
                package: None,
            },
            Self::Url { .. } => self.clone(),
        }
    }

    /// Whether it is the server that was signed as `signed`: by all that is known of it, or by its command line where that alone was
    /// signed.
    #[must_use]
    pub fn is_signed_as(&self, signed: Hash) -> bool {
        [self.hash(), self.command_line().hash()]
            .into_iter()
            .any(|hash| hash.is_ok_and(|hash| hash == signed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(command: &str, args: &[&str]) -> ServerIdentity {
        ServerIdentity::Command {
            command: command.into(),
            args: args.iter().map(ToString::to_string).collect(),
            program: None,
            package: None,
        }
    }

    #[test]
    fn every_part_counts() {
        let base = command("npx", &["-y", "a@1"]);
        let same = base.hash().unwrap();
        assert_eq!(
            same,
            Hash::of(br#"{"args":["-y","a@1"],"command":"npx","kind":"command"}"#)
        );
        let url = ServerIdentity::Url { url: "npx".into() };
        for other in [
            command("npx", &["-y a@1"]),
            command("npx", &["-y", "a@2"]),
            command("npy", &["-y", "a@1"]),
            url,
        ] {
            assert_ne!(other.hash().unwrap(), same, "{other:?}");
        }
    }
}
