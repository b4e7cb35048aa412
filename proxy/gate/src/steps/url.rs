//! Step 2: no credential in the URL. Refused without looking at it, never echoed.

use super::call::{Call, Ended, SwitchedOn, UrlClean};
use crate::facts::Facts;
use crate::ports::Ports;
use crate::refusal::{Code, Refusal};
use crate::request::UrlParts;

/// Parameter names that carry credentials.
const NAMES: [&str; 8] = [
    "access_token",
    "api_key",
    "api-key",
    "apikey",
    "key",
    "token",
    "authorization",
    "bearer",
];

pub(super) async fn step(
    _: &Facts,
    _: &Ports<'_>,
    call: Call<SwitchedOn>,
) -> Result<Call<UrlClean>, Ended> {
    if !call
        .base
        .request
        .url
        .as_ref()
        .is_some_and(carries_credential)
    {
        return Ok(call.at(UrlClean));
    }
    let refusal = Refusal::new(
        Code::CredentialInUrl,
        2,
        "the URL carries a credential; URLs end up in logs",
        "Send the key in the `Authorization: Bearer` header; have the person revoke the one that was in the URL.",
    );
    Err(call.base.counted(refusal, None))
}

fn carries_credential(url: &UrlParts) -> bool {
    let query = url.query.as_deref().unwrap_or_default();
    let named = query.split(['&', ';']).any(|pair| {
        let name = decoded(pair.split('=').next().unwrap_or_default()).to_ascii_lowercase();
        NAMES.contains(&name.as_str())
    });
    let is_key = |text: &str| {
        decoded(&decoded(text))
            .to_ascii_lowercase()
            .contains("csk_")
    };
    url.userinfo.as_ref().is_some_and(|info| !info.is_empty())
        || named
        || is_key(query)
        || is_key(&url.path)
}

/// Percent-decoded as far as it is well formed.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let value = hex
            .filter(|_| byte == b'%')
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(value.unwrap_or(byte));
        rest = if value.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(userinfo: Option<&str>, path: &str, query: Option<&str>, want: bool) {
        let url = UrlParts {
            userinfo: userinfo.map(String::from),
            path: path.into(),
            query: query.map(String::from),
        };
        assert_eq!(
            carries_credential(&url),
            want,
            "{userinfo:?} {path} {query:?}"
        );
    }

    #[test]
    fn where_a_credential_can_hide() {
        check(None, "/mcp", None, false);
        check(None, "/api/v1/tools", Some("page=2&keyword=x"), false);
        check(Some("csk_ab"), "/mcp", None, true);
        check(Some("user:x"), "/mcp", None, true);
        check(Some(""), "/mcp", None, false);
        check(None, "/mcp/csk_ab12cd34_x", None, true);
        check(None, "/mcp/%63sk_ab", None, true);
        check(None, "/mcp/%2563sk%255Fab", None, true);
        check(None, "/mcp", Some("a=csk_ab"), true);
        check(None, "/mcp", Some("Access_Token=x"), true);
        check(None, "/mcp", Some("a=1&%6bey=x"), true);
        check(None, "/mcp", Some("a=%"), false);
    }
}
