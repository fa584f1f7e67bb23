//! Every answer in JSON, and its schema: made of the type that is serialised.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::list::SchemaList;
use crate::recorded::RecordAnswer;
use crate::verb::*;

/// A version of all of them: a field that goes, or means another thing, makes the next one.
const VERSION: u32 = 1;

/// What is written as JSON under one name.
pub struct AnswerSchema {
    /// The verb's words, or what else is written so.
    pub verb: &'static str,
    /// The types of its forms.
    forms: &'static [fn(&mut SchemaGenerator) -> Schema],
}

/// All of them, by their words.
pub const ANSWERS: &[AnswerSchema] = &[
    of("attach", &[attach::AttachAnswer::json_schema]),
    of("calibrate", &[calibrate::view::CalibrationOutcome::json_schema]),
    of("calm check", &[calm::check::view::CalmChecked::json_schema]),
    of("calm show", &[calm::show::view::CalmShown::json_schema]),
    of("check", &[check::view::CheckAnswer::json_schema]),
    of("diff", &[diff::view::Diff::json_schema, diff::view::paths::PathsDiff::json_schema]),
    of("doctor", &[::doctor::Diagnosis::json_schema]),
    of("elf bind", &[elf::bind::data::ElfBind::json_schema]),
    of("elf hook", &[elf::hook::view::ElfHook::json_schema]),
    of("elf pack", &[elf::pack::view::ElfPack::json_schema]),
    of("elf tree", &[elf::tree::view::data::ElfTree::json_schema]),
    of(
        "export",
        &[
            export::view::Export::json_schema,
            export::view::ExportedRanks::json_schema,
            recording::export::line::ExportLine::json_schema,
        ],
    ),
    of("fix", &[fix::data::FixData::json_schema]),
    of("fork lines", &[fork::lines::view::ForkLines::json_schema]),
    of("image build", &[image::build::view::Packed::json_schema]),
    of("image extract", &[image::extract::view::Unpacked::json_schema]),
    of("image inspect", &[image::inspect::view::Inspected::json_schema]),
    of("image overlay", &[image::overlay::view::Overlaid::json_schema]),
    of("image spread", &[image::spread::view::SpreadOutcome::json_schema]),
    of("lab aslr analyze", &[lab::aslr::analyze::view::AslrAnalysis::json_schema]),
    of("lab aslr campaign", &[lab::aslr::campaign::view::AslrCampaign::json_schema]),
    of("lab aslr explain", &[lab::aslr::explain::view::AslrExplained::json_schema]),
    of("lab aslr scan", &[lab::aslr::scan::view::AslrScan::json_schema]),
    of("lab aslr verify", &[lab::aslr::verify::view::AslrVerified::json_schema]),
    of("lab aslr verify rank", &[::lab::aslr::verify::RankLayout::json_schema]),
    of("lab fork bench", &[lab::fork::bench::view::ForkBench::json_schema]),
    of("lab fork collapse", &[lab::fork::collapse::view::ForkCollapse::json_schema]),
    of("lab profile", &[lab::profile::view::ObjectWarning::json_schema]),
    of("merge", &[merge::view::MergedRecordings::json_schema]),
    of("modules audit", &[modules::audit::view::ModulesAudit::json_schema]),
    of("modules cache", &[modules::cache::view::ModulesCache::json_schema]),
    of("modules calm", &[modules::calm::view::ModulesCalm::json_schema]),
    of("modules explain", &[modules::explain::view::ModulesExplain::json_schema]),
    of("modules hook", &[modules::hook::view::ModulesHook::json_schema]),
    of("modules index", &[modules::index::view::ModulesIndex::json_schema]),
    of("modules status", &[modules::status::view::ModulesStatus::json_schema]),
    of("modules remembered", &[modules::remembered::view::ModulesRemembered::json_schema]),
    of("modules tidy", &[modules::tidy::view::TidyData::json_schema]),
    of("plan", &[remedy::Plan::json_schema]),
    of("prove", &[::prove::Proof::json_schema]),
    of("python scan", &[python::scan::view::PythonScan::json_schema]),
    of("ranks", &[report::view::ranks::RanksReport::json_schema]),
    of("record", &[RecordAnswer::json_schema]),
    of(
        "rehearse",
        &[
            rehearse::view::RehearsalAnswer::json_schema,
            rehearse::calibration::CalibrationAnswer::json_schema,
        ],
    ),
    of(
        "report",
        &[report::view::CallReport::json_schema, report::view::data::DataReport::json_schema],
    ),
    of("run", &[run::RunAnswer::json_schema]),
    of("scale", &[scale::view::ScaleAnswer::json_schema]),
    of("schema", &[SchemaList::json_schema]),
    of("undo", &[undo::UndoAnswer::json_schema]),
];

const fn of(
    verb: &'static str,
    forms: &'static [fn(&mut SchemaGenerator) -> Schema],
) -> AnswerSchema {
    AnswerSchema { verb, forms }
}

impl AnswerSchema {
    /// What the answer's `schema` says: `becalm.elf.tree/1`.
    pub fn name(&self) -> String {
        format!("becalm.{}/{VERSION}", self.verb.replace(' ', "."))
    }

    /// Its `$id`, which stays.
    pub fn id(&self) -> String {
        format!("urn:becalm:schema:{}:{VERSION}", self.verb.replace(' ', "."))
    }

    /// The schema, of draft 2020-12.
    pub fn schema(&self) -> Value {
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let forms = self.forms.iter().map(|form| form(&mut generator).to_value());
        let mut forms: Vec<Value> = forms.collect();
        forms.iter_mut().for_each(|form| self.name_in(form));
        let mut schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": self.id(),
            "title": self.name(),
            "description": self.description(),
        });
        match (forms.len(), schema.as_object_mut()) {
            (1, Some(root)) => {
                root.extend(forms.remove(0).as_object().cloned().unwrap_or_default())
            }
            _ => schema["anyOf"] = forms.into(),
        }
        let types = generator.take_definitions(true);
        if !types.is_empty() {
            schema["$defs"] = types.into();
        }
        schema["title"] = self.name().into();
        schema["description"] = self.description().into();
        as_prose(&mut schema);
        schema
    }

    fn description(&self) -> String {
        let page = self.verb.replace(' ', ".");
        format!(
            "docs/schema/becalm.{page}.md describes it; fields are only ever added within /{VERSION}"
        )
    }

    /// Has a form's field `schema` say the name.
    fn name_in(&self, form: &mut Value) {
        if let Some(field) = form.pointer_mut("/properties/schema") {
            *field = json!({ "const": self.name() });
        }
        for branches in ["anyOf", "oneOf"] {
            let branches = form.get_mut(branches).and_then(Value::as_array_mut);
            branches.into_iter().flatten().for_each(|branch| self.name_in(branch));
        }
    }
}

/// Takes links and the ends of lines out of descriptions, which are those of the types' documentation.
fn as_prose(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(text) if key == "description" => {
                        let paragraphs = text.split("\n\n").map(|lines| lines.replace('\n', " "));
                        let text_alone = paragraphs.collect::<Vec<_>>().join("\n");
                        *text = text_alone.replace("[`", "`").replace("`]", "`");
                    }
                    _ => as_prose(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(as_prose),
        _ => {}
    }
}
