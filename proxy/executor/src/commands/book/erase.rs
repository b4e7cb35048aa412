//! `book erase`: destroys what is kept of an entry, on record. The entry itself and every proof stay.

use clap::{Args, ValueEnum};
use countersign_book::{BookError, Field};
use serde_json::{Value, json};

use crate::commands::acts::{Act, Consent, consent};
use crate::commands::{Context, Report, plain};
use crate::problem::Problem;

use super::{own_writer, refused, remember, unfinished};

/// What is erased.
#[derive(Debug, Args)]
pub struct EraseArgs {
    /// The entry's number, from 0
    #[arg(value_name = "N")]
    pub index: u64,
    /// Only this; may be given several times [default: everything kept of the entry]
    #[arg(long, value_enum, value_name = "FIELD")]
    pub field: Vec<Part>,
    /// Only what holds secrets; what is shown without them stays
    #[arg(long)]
    pub secrets: bool,
    /// Why, for the record; no personal data
    #[arg(long, value_name = "TEXT", default_value = "asked for")]
    pub reason: String,
    /// Whether it is asked for
    #[command(flatten)]
    pub consent: Consent,
}

/// A part of an entry that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The arguments as received
    Args,
    /// What was sent to the server
    Sent,
    /// The result
    Result,
}

impl Part {
    fn field(self) -> Field {
        match self {
            Self::Args => Field::Args,
            Self::Sent => Field::Sent,
            Self::Result => Field::Result,
        }
    }
}

pub(super) fn run(context: &Context, args: &EraseArgs) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let index = args.index;
    let fields = fields(context, args)?;
    let consequence = format!(
        "what is kept of entry {index} is destroyed for ever; the entry says so and stays. Copies of the folder and of the secret \
         store that were made before, and what was exported, are not reached"
    );
    let act = Act {
        command: "book erase",
        consequence: &consequence,
    };
    consent(context, &act, args.consent)?;
    let store = context.secrets(&settings)?;
    let mut writer = own_writer(context, &settings, store.as_ref())?;
    let done = writer
        .erase(
            index,
            &fields,
            &plain(&args.reason),
            "countersign book erase",
        )
        .map_err(|error| unfinished(context, act.command, &error))?;
    remember(context, store.as_ref(), &writer);
    let names = |fields: &[Field]| {
        let names: Vec<&str> = fields.iter().map(|field| field.as_str()).collect();
        names.join(", ")
    };
    let mut text = String::new();
    if let Some(entry) = done.entry {
        text.push_str(&format!(
            "erased {} of entry {index}, on record in entry {entry}\n",
            names(&done.erased)
        ));
    }
    if !done.already.is_empty() {
        text.push_str(&format!(
            "{} of entry {index} was erased before\n",
            names(&done.already)
        ));
    }
    if !done.missing.is_empty() {
        text.push_str(&format!(
            "{} of entry {index} is not in the vault: there is nothing to erase\n",
            names(&done.missing)
        ));
    }
    let list = |fields: &[Field]| {
        Value::from(
            fields
                .iter()
                .map(|field| field.as_str())
                .collect::<Vec<_>>(),
        )
    };
    Ok(Report::new(
        text,
        json!({
            "index": index, "entry": done.entry, "erased": list(&done.erased), "already": list(&done.already),
            "missing": list(&done.missing),
        }),
    ))
}

/// The fields asked for, with their views; none means all.
fn fields(context: &Context, args: &EraseArgs) -> Result<Vec<Field>, Problem> {
    let asked = args.field.iter().map(|part| part.field());
    if !args.secrets {
        return Ok(asked.flat_map(|field| [field, field.view()]).collect());
    }
    let failed = |error: BookError| refused(context, &error);
    let reader = countersign_book::Reader::open(&context.folder.book()).map_err(failed)?;
    let kept = reader.kept(args.index).map_err(failed)?;
    let asked: Vec<Field> = asked.collect();
    let fields: Vec<Field> = kept
        .iter()
        .filter(|kept| !kept.secrets.is_empty())
        .map(|kept| kept.field)
        .filter(|field| asked.is_empty() || asked.contains(field))
        .collect();
    if fields.is_empty() {
        return Err(Problem::new(
            "nothing_to_erase",
            format!(
                "nothing that was found to hold secrets is kept of entry {}; nothing was changed",
                args.index
            ),
            "`countersign book show N --payload` shows what is kept; without --secrets all of it is erased",
        ));
    }
    Ok(fields)
}
