//! What a Python environment takes from elsewhere.

use std::path::Path;

use image_format::squash::SquashReadError;
use image_format::tree::FileNodeId;

use super::{OutsideSurvey, Reference, path};

impl OutsideSurvey<'_> {
    /// Looks at a file that may be one of those by which an environment refers to others.
    pub(super) fn python(&mut self, id: FileNodeId) -> Result<(), SquashReadError> {
        let name = &self.tree.nodes[id as usize].name[..];
        if name.ends_with(b".pth") {
            self.pth(id)?;
        } else if name == b"direct_url.json" {
            self.direct_url(id)?;
        } else if name.starts_with(b"__editable__") && name.ends_with(b".py") {
            self.finder(id)?;
        } else if name == b"pyvenv.cfg" {
            self.home(id)?;
        }
        Ok(())
    }

    /// site.py: a line is a path, relative to the file's directory, unless it begins with `import`.
    fn pth(&mut self, id: FileNodeId) -> Result<(), SquashReadError> {
        let file = self.tree.place(id);
        let directory = file.parent().unwrap_or(Path::new("/"));
        for line in self.read(id)?.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            let is_code = line.starts_with(b"import ") || line.starts_with(b"import\t");
            if !line.is_empty() && !line.starts_with(b"#") && !is_code {
                self.point_to(Reference::Pth, directory.join(path(line)), id);
            }
        }
        Ok(())
    }

    /// PEP 610: where a package was installed from, and whether it is still used there.
    fn direct_url(&mut self, id: FileNodeId) -> Result<(), SquashReadError> {
        #[derive(serde::Deserialize)]
        struct DirectUrl {
            url: String,
            dir_info: Option<DirInfo>,
        }
        #[derive(serde::Deserialize)]
        struct DirInfo {
            #[serde(default)]
            editable: bool,
        }
        let Ok(about) = serde_json::from_slice::<DirectUrl>(&self.read(id)?) else { return Ok(()) };
        let is_editable = about.dir_info.is_some_and(|about| about.editable);
        if let Some(directory) = about.url.strip_prefix("file://")
            && is_editable
        {
            self.point_to(Reference::Editable, path(&percent_decoded(directory.as_bytes())), id);
        }
        Ok(())
    }

    /// setuptools' finder of an editable install: its absolute paths, in quotes.
    fn finder(&mut self, id: FileNodeId) -> Result<(), SquashReadError> {
        let text = self.read(id)?;
        for quote in [b'\'', b'"'] {
            for (number, part) in text.split(|byte| *byte == quote).enumerate() {
                if number % 2 == 1 && part.starts_with(b"/") && !part.contains(&b'\n') {
                    self.point_to(Reference::Editable, path(part), id);
                }
            }
        }
        Ok(())
    }

    fn home(&mut self, id: FileNodeId) -> Result<(), SquashReadError> {
        for line in self.read(id)?.split(|byte| *byte == b'\n') {
            let mut parts = line.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
            if let (Some(b"home"), Some(directory)) = (parts.next(), parts.next()) {
                self.point_to(Reference::Home, path(directory), id);
            }
        }
        Ok(())
    }
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes
}
