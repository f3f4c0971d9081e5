//! The notation.
//!
//! ```text
//! statement = array [ "." | "·" ] array "->" array
//! array     = [ name ] "[" dim { "," dim } "]" [ "{" "U_" axes "}" ]
//! dim       = name [ "_" axes ]            axes = capital letters
//! ```

use std::fmt;

use stepsim_spec::SpecError;

/// A product with its shardings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The left side.
    pub a: Array,
    /// The right side.
    pub b: Array,
    /// The result.
    pub c: Array,
}

/// An array and how it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its name.
    pub name: String,
    /// Its dimensions.
    pub dims: Vec<Dim>,
    /// Axes over which its sum is still to be done.
    pub unreduced: Vec<char>,
}

/// A dimension and the mesh axes that cut it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// The axes, the first varies slowest.
    pub axes: Vec<char>,
}

impl Array {
    /// The dimension of a name.
    pub fn dim(&self, name: &str) -> Option<&Dim> {
        self.dims.iter().find(|d| d.name == name)
    }
    /// The dimension that an axis cuts.
    pub fn cut_by(&self, axis: char) -> Option<&Dim> {
        self.dims.iter().find(|d| d.axes.contains(&axis))
    }
    /// Takes axes off all dimensions.
    pub(super) fn without(&mut self, axes: &[char]) {
        self.dims.iter_mut().for_each(|d| d.axes.retain(|a| !axes.contains(a)));
    }
    fn axes(&self) -> impl Iterator<Item = char> + '_ {
        self.dims.iter().flat_map(|d| &d.axes).chain(&self.unreduced).copied()
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(Dim::to_string).collect();
        write!(f, "{}[{}]", self.name, dims.join(","))?;
        match self.unreduced.is_empty() {
            true => Ok(()),
            false => write!(f, "{{U_{}}}", self.unreduced.iter().collect::<String>()),
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.axes.is_empty() {
            true => Ok(()),
            false => write!(f, "_{}", self.axes.iter().collect::<String>()),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.a, self.b, self.c)
    }
}

impl Statement {
    /// Reads a statement whose mesh has these axes.
    ///
    /// # Errors
    /// It does not follow the notation, or cannot be a product.
    pub fn parse(text: &str, mesh: &[char]) -> Result<Statement, SpecError> {
        let wrong = |problem: String| {
            SpecError::file(format!("`{text}`"), problem)
                .hint("the notation: A[I_X,J_Y] B[J_Y,K] -> C[I_X,K]")
        };
        let (product, result) = text
            .split_once("->")
            .or_else(|| text.split_once('→'))
            .ok_or_else(|| wrong("has no `->`".into()))?;
        let mut rest = product.trim();
        let a = array(&mut rest, "A").map_err(wrong)?;
        rest = rest.trim_start().trim_start_matches(['.', '·', '*', '@']).trim_start();
        let b = array(&mut rest, "B").map_err(wrong)?;
        let mut after = result.trim();
        let c = array(&mut after, "C").map_err(wrong)?;
        for left in [rest.trim(), after.trim()] {
            if !left.is_empty() {
                return Err(wrong(format!("`{left}` is too much")));
            }
        }
        let statement = Statement { a, b, c };
        statement.check(mesh).map_err(wrong)?;
        Ok(statement)
    }

    /// Names of the dimensions that are summed over.
    pub fn contracted(&self) -> impl Iterator<Item = &str> {
        let both = self.a.dims.iter().filter(|d| self.b.dim(&d.name).is_some());
        both.filter(|d| self.c.dim(&d.name).is_none()).map(|d| d.name.as_str())
    }
    /// Every dimension once.
    pub fn dims(&self) -> Vec<&str> {
        let of_b = self.b.dims.iter().filter(|d| self.a.dim(&d.name).is_none());
        self.a.dims.iter().chain(of_b).map(|d| d.name.as_str()).collect()
    }
    /// The two products of the backward pass: dA = dC·B and dB = A·dC, each gradient cut as its array, dC as C.
    pub fn gradients(&self) -> [Statement; 2] {
        let gradient = |array: &Array| {
            let (name, dims) = (format!("d{}", array.name), array.dims.clone());
            Array { name, dims, unreduced: Vec::new() }
        };
        [
            Statement { a: gradient(&self.c), b: self.b.clone(), c: gradient(&self.a) },
            Statement { a: self.a.clone(), b: gradient(&self.c), c: gradient(&self.b) },
        ]
    }

    fn check(&self, mesh: &[char]) -> Result<(), String> {
        for array in [&self.a, &self.b, &self.c] {
            let mut seen = Vec::new();
            for axis in array.axes() {
                if !mesh.contains(&axis) {
                    let known: Vec<String> = mesh.iter().map(char::to_string).collect();
                    return Err(format!("{array}: the mesh has no axis {axis}; it has {}", known.join(", ")));
                }
                if seen.contains(&axis) {
                    return Err(format!("{array}: the axis {axis} stands there twice"));
                }
                seen.push(axis);
            }
            for (i, dim) in array.dims.iter().enumerate() {
                if array.dims[..i].iter().any(|d| d.name == dim.name) {
                    return Err(format!("{array}: the dimension {} stands there twice", dim.name));
                }
            }
        }
        for input in [&self.a, &self.b] {
            if !input.unreduced.is_empty() {
                return Err(format!("{input}: only the result can be unreduced; reduce it first"));
            }
        }
        if self.contracted().next().is_none() {
            return Err("no dimension is summed over: A and B must share one that C lacks".into());
        }
        for dim in &self.c.dims {
            if self.a.dim(&dim.name).is_none() && self.b.dim(&dim.name).is_none() {
                return Err(format!("{}: neither input has the dimension {}", self.c, dim.name));
            }
        }
        for (input, other) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let lost = |d: &&Dim| other.dim(&d.name).is_none() && self.c.dim(&d.name).is_none();
            if let Some(dim) = input.dims.iter().find(lost) {
                return Err(format!("{input}: the dimension {} is in no other array", dim.name));
            }
        }
        Ok(())
    }
}

/// Takes an array off the front of a text.
fn array(text: &mut &str, default: &str) -> Result<Array, String> {
    let open = text.find('[').ok_or_else(|| format!("`{text}` is no array like A[I_X,J]"))?;
    let close = text.find(']').filter(|close| *close > open).ok_or_else(|| format!("`{text}` has no `]`"))?;
    let name = text[..open].trim();
    if !name.chars().all(|c| c.is_alphanumeric() || c == '\'') {
        return Err(format!("`{name}` is no name of an array"));
    }
    let dims =
        text[open + 1..close].split(',').map(|d| dim(d.trim())).collect::<Result<Vec<Dim>, String>>()?;
    *text = text[close + 1..].trim_start();
    let mut unreduced = Vec::new();
    if let Some(inner) = text.strip_prefix('{') {
        let (inner, after) = inner.split_once('}').ok_or_else(|| format!("`{text}` has no `}}`"))?;
        let axes = inner.trim().strip_prefix("U_").ok_or_else(|| format!("`{{{inner}}}` is not {{U_X}}"))?;
        unreduced = letters(axes)?;
        *text = after;
    }
    let name = if name.is_empty() { default } else { name }.to_string();
    Ok(Array { name, dims, unreduced })
}

fn dim(text: &str) -> Result<Dim, String> {
    let (name, axes) = match text.split_once('_') {
        Some((name, axes)) => (name, letters(axes)?),
        None => (text, Vec::new()),
    };
    if name.is_empty() || !name.chars().all(char::is_alphanumeric) {
        return Err(format!("`{text}` is no dimension like I or I_XY"));
    }
    Ok(Dim { name: name.to_string(), axes })
}

fn letters(text: &str) -> Result<Vec<char>, String> {
    let axes: Vec<char> = text.trim().chars().filter(|c| !matches!(c, '{' | '}')).collect();
    match !axes.is_empty() && axes.iter().all(char::is_ascii_uppercase) {
        true => Ok(axes),
        false => Err(format!("`{text}` are no mesh axes like X or XY")),
    }
}
