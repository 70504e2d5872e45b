//! Ops of a program by number, kept as the location of everything that is made of them.

use std::sync::Arc;
use zmlc_import::{
    op_name,
    tree::{Block, Loc, Op, Program, Span},
};

/// Begins the name of a location that is an op's number.
const MARK: &str = "zml.source#";

pub struct Sources(Vec<Source>);
#[derive(Clone, Debug)]
pub struct Source {
    /// `stablehlo.add`
    pub name: String,
    pub span: Span,
    /// As the exporter wrote it.
    loc: Loc,
}

impl Sources {
    /// Numbers the ops of all functions, nested ones too.
    pub fn number(program: &mut Program) -> Self {
        let mut all = Sources(vec![]);
        for f in &mut program.funcs {
            all.block(&mut f.body);
        }
        all
    }
    fn block(&mut self, b: &mut Block) {
        for op in &mut b.ops {
            self.op(op);
        }
    }
    fn op(&mut self, op: &mut Op) {
        let number = Loc::Name { name: format!("{MARK}{}", self.0.len()).into(), child: Arc::new(Loc::Unknown) };
        let loc = std::mem::replace(&mut op.loc, number);
        self.0.push(Source { name: op_name(&op.kind), span: op.span, loc });
        for region in &mut op.regions {
            self.block(region);
        }
    }
    /// The ops that an MLIR location, as text, stands for.
    pub fn of(&self, location: &str) -> Vec<&Source> {
        let numbers = location.split(MARK).skip(1).map(|s| s.split(|c: char| !c.is_ascii_digit()).next());
        let mut found: Vec<usize> = numbers.filter_map(|n| n?.parse().ok()).collect();
        found.dedup();
        found.into_iter().filter_map(|n| self.0.get(n)).collect()
    }
    /// The op that carries this location, made by [`Sources::number`].
    pub fn at(&self, loc: &Loc) -> Option<&Source> {
        self.of(loc.name()?).first().copied()
    }
}
impl Source {
    /// Where an exporter says that the op comes from.
    pub fn exported(&self) -> Option<String> {
        match &self.loc {
            Loc::File { file, line, column } => Some(format!("{file}:{line}:{column}")),
            l => l.name().map(str::to_string),
        }
    }
}
