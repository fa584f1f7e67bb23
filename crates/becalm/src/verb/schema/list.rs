//! The list of schemas.

use schemars::JsonSchema;
use serde::Serialize;
use term::{Cell, Column, Table};

use super::answers::{ANSWERS, AnswerSchema};

/// What `becalm schema` answers without a verb.
#[derive(Serialize, JsonSchema)]
pub struct SchemaList {
    /// `becalm.schema/1`.
    schema: &'static str,
    /// The schemas, in the order of their words.
    schemas: Vec<ListedSchema>,
}

/// One schema.
#[derive(Serialize, JsonSchema)]
struct ListedSchema {
    /// What `becalm schema` takes: a verb's words, or what else is written as JSON.
    verb: &'static str,
    /// Its name and version, as the answer's `schema` has it.
    name: String,
    /// Its `$id`.
    id: String,
}

impl SchemaList {
    /// All that there are.
    pub fn of_all() -> SchemaList {
        SchemaList {
            schema: "becalm.schema/1",
            schemas: ANSWERS.iter().map(ListedSchema::of).collect(),
        }
    }

    /// A row a schema.
    pub fn render(&self, columns: usize) -> String {
        let mut table =
            Table::new([Column::text("becalm schema"), Column::text("becalm … --json writes")]);
        for one in &self.schemas {
            table.row([Cell::from(one.verb), one.name.as_str().into()]);
        }
        table.render(columns)
    }
}

impl ListedSchema {
    fn of(answer: &AnswerSchema) -> ListedSchema {
        ListedSchema { verb: answer.verb, name: answer.name(), id: answer.id() }
    }
}
