//! Reading a configuration: fields by the names that releases have given them, and what all decoders have in common.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::imports::vocabulary::Vocabulary;
use stepsim_spec::SpecError;
use stepsim_spec::model::{AttentionSpec, LayerKindSpec, LayerRun, Mixer, MlpKind, ModelSpec, MoeSpec};

/// A model, or why a configuration is none.
pub(super) type ModelResult = Result<ModelSpec, SpecError>;

/// The decoder's part of a configuration.
#[derive(Clone)]
pub(super) struct Config<'a> {
    map: &'a Map<String, Value>,
    /// The whole file, where the decoder's part is inside another.
    outer: &'a Map<String, Value>,
    name: &'a str,
    /// Where this part stands in the decoder's, with a dot behind it.
    at: String,
    /// The keys that were looked for, with the parts that they stand in.
    heeded: Rc<RefCell<BTreeSet<String>>>,
}

const EXPERTS: &[&str] = &["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];
const TOP_K: &[&str] =
    &["num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_top_k", "moe_k"];

/// No width, length or count of a model is larger, and the product of two is still a number.
const LARGEST: u64 = 1 << 31;
/// No model has more layers.
const MOST_LAYERS: u64 = 100_000;

impl<'a> Config<'a> {
    pub fn new(value: &'a Value, name: &'a str) -> Result<Config<'a>, SpecError> {
        let outer = value.as_object().ok_or_else(|| {
            SpecError::at("", "no JSON object").allowed("a config.json of Hugging Face transformers")
        })?;
        let inner =
            ["text_config", "language_config", "llm_config"].iter().find_map(|k| outer.get(*k)?.as_object());
        let (at, heeded) = (String::new(), Rc::default());
        Ok(Config { map: inner.unwrap_or(outer), outer, name, at, heeded })
    }

    /// A part of the whole file, which counts as the decoder's.
    pub fn of_part(part: &'a Value, whole: &'a Value) -> Option<Config<'a>> {
        let (map, outer) = (part.as_object()?, whole.as_object()?);
        Some(Config { map, outer, name: "", at: String::new(), heeded: Rc::default() })
    }

    /// A value, in a part of the configuration where its name has a dot; its key counts as read.
    fn get(&self, name: &str) -> Option<&'a Value> {
        if let Some((part, inside)) = name.split_once('.') {
            return self.part(part)?.get(inside);
        }
        self.heeded.borrow_mut().insert(format!("{}{name}", self.at));
        self.map.get(name)
    }

    /// The first key with a size in it that nobody looked for.
    ///
    /// # Errors
    /// There is one: the model would have other parameters.
    pub fn all_sizes_are_read(&self) -> Result<(), SpecError> {
        let heeded = self.heeded.borrow();
        for (key, value) in self.map {
            let path = format!("{}{key}", self.at);
            let inside = format!("{path}.");
            match value.as_object() {
                Some(map) if heeded.iter().any(|read| read.starts_with(&inside)) => {
                    Config { map, at: inside, ..self.clone() }.all_sizes_are_read()?;
                }
                None if !heeded.contains(&path) && Vocabulary::shipped().is_model_size(key, value) => {
                    let problem =
                        format!("{value} is a size that nothing of {} reads here", self.model_type());
                    return Err(SpecError::at(path, problem)
                        .allowed("keys whose effect on the parameters is known")
                        .hint(
                            "leave it out where it changes no weight, or write a model file by hand: \
                             docs/start/model.md has examples (stepsim schema model)",
                        ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The architecture: the decoder's own name, or the name of the model around it.
    pub fn model_type(&self) -> String {
        let named = |map: &Map<String, Value>| Some(map.get("model_type")?.as_str()?.to_ascii_lowercase());
        named(self.map).or_else(|| named(self.outer)).unwrap_or_default().replace('-', "_")
    }

    /// The first of some names that says something; all of them count as read.
    fn field<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &'a Value)> {
        let said = |name: &'n str| self.get(name).filter(|value| !value.is_null()).map(|value| (name, value));
        names.iter().fold(None, |first, name| {
            let said = said(name);
            first.or(said)
        })
    }

    /// A count under one of some names.
    pub fn optional(&self, names: &[&str]) -> Result<Option<u64>, SpecError> {
        let Some((name, value)) = self.field(names) else { return Ok(None) };
        let whole = value
            .as_u64()
            .or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && *f >= 0.0).map(|f| f as u64));
        match whole {
            Some(count) if count <= LARGEST => Ok(Some(count)),
            _ => Err(SpecError::at(name, format!("{value} is no count"))
                .allowed(format!("a whole number from 0 to {LARGEST}"))),
        }
    }
    /// A count, or a list of one count a layer, all alike.
    pub fn alike(&self, name: &str) -> Result<Option<u64>, SpecError> {
        let Some(list) = self.numbers(name) else { return self.optional(&[name]) };
        match list.split_first() {
            Some((first, rest)) if rest.iter().all(|n| n == first) => Ok(Some(*first)),
            Some(_) => Err(SpecError::at(name, "layers differ").allowed("the same count for every layer")),
            None => Ok(None),
        }
    }
    /// A count that must be there.
    pub fn count(&self, names: &[&str]) -> Result<u64, SpecError> {
        self.optional(names)?.ok_or_else(|| {
            SpecError::at(names[0], "the field is missing")
                .allowed("a whole number")
                .hint("is this the whole config.json of the release?")
        })
    }
    /// How many layers: they are written down one by one, so there is a bound.
    fn layers(&self) -> Result<u64, SpecError> {
        let names = ["num_hidden_layers", "n_layer", "n_layers", "num_layers"];
        match self.count(&names)? {
            layers @ 0..=MOST_LAYERS => Ok(layers),
            layers => Err(SpecError::at(names[0], format!("{layers} layers are too many"))
                .allowed(format!("0 to {MOST_LAYERS}"))),
        }
    }
    /// A count, or what the class sets.
    pub fn or(&self, names: &[&str], default: u64) -> Result<u64, SpecError> {
        Ok(self.optional(names)?.unwrap_or(default))
    }
    /// A truth, or what the class sets.
    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(default)
    }
    /// A text.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(Value::as_str)
    }
    /// A part of the configuration.
    pub fn part(&self, name: &str) -> Option<Config<'a>> {
        let map = self.get(name)?.as_object()?;
        Some(Config { map, at: format!("{}{name}.", self.at), ..self.clone() })
    }
    /// A fraction of this part or of the whole configuration, or what the class sets.
    pub fn ratio(&self, name: &str, default: f64) -> f64 {
        let said = self.get(name).or_else(|| self.outer.get(name)).and_then(Value::as_f64);
        said.filter(|r| *r > 0.0).unwrap_or(default)
    }
    /// A list of numbers or truths, as numbers.
    pub fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let list = self.get(name)?.as_array()?;
        list.iter().map(|v| v.as_u64().filter(|n| *n <= LARGEST).or(v.as_bool().map(u64::from))).collect()
    }
    /// How many entries a list has.
    pub fn list_length(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_array().map(|list| list.len() as u64)
    }
    /// A list of objects.
    pub fn objects(&self, name: &str) -> Option<&'a [Value]> {
        self.get(name)?.as_array().map(Vec::as_slice).filter(|list| list.iter().all(Value::is_object))
    }
    /// A list of words.
    pub fn words(&self, name: &str) -> Option<Vec<&'a str>> {
        self.get(name)?.as_array()?.iter().map(Value::as_str).collect()
    }

    /// True if the LM head shares the embedding; `default` is the class's own value.
    pub fn tied(&self, default: bool) -> bool {
        let stated = |map: &Map<String, Value>| map.get("tie_word_embeddings").and_then(Value::as_bool);
        stated(self.map).or_else(|| stated(self.outer)).unwrap_or(default)
    }

    /// The sliding window, where one is set and in use.
    pub fn window(&self, used: bool) -> Result<Option<u64>, SpecError> {
        Ok(self.optional(&["sliding_window"])?.filter(|_| self.flag("use_sliding_window", used)))
    }
    /// Experts without anything shared.
    pub fn experts(&self, ffn: Option<u64>) -> Result<MoeSpec, SpecError> {
        Ok(MoeSpec { ffn, ..MoeSpec::of(self.count(EXPERTS)?, self.count(TOP_K)?) })
    }

    /// The decoder with what the class sets where the file is silent.
    pub fn decoder_of_class<'n>(&self, class: impl IntoIterator<Item = (&'n str, u64)>) -> ModelResult {
        let mut map = self.map.clone();
        for (name, value) in class {
            map.entry(name).or_insert_with(|| value.into());
        }
        Config { map: &map, ..self.clone() }.decoder()
    }

    /// A decoder of today: rotary, RMS norms, gated MLP, no biases.
    pub fn decoder(&self) -> ModelResult {
        let hidden = self.count(&["hidden_size", "n_embd", "d_model", "n_embed"])?;
        let heads = self.count(&["num_attention_heads", "n_head", "n_heads", "num_heads"])?;
        let kv = self.optional(&["num_key_value_heads", "num_kv_heads", "n_head_kv"])?;
        let size = self.optional(&["head_dim", "attention_head_dim", "kv_channels"])?;
        let longest =
            ["max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_sequence_length"];
        Ok(ModelSpec {
            name: self.name.to_owned(),
            source: format!("Hugging Face config.json, model_type {}", self.model_type()),
            layers: self.layers()?,
            hidden,
            heads,
            kv_heads: kv.filter(|kv| *kv != heads),
            head_size: size.filter(|d| Some(*d) != hidden.checked_div(heads) || d * heads != hidden),
            ffn: self.or(&["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"], 4 * hidden)?,
            gated_mlp: true,
            vocabulary: self.count(&["vocab_size", "padded_vocab_size"])?,
            tied_embeddings: self.tied(false),
            sequence: self.optional(&longest)?.unwrap_or(4096).clamp(1, 4096),
            ..ModelSpec::default()
        })
    }
}

/// A kind of layer with attention of its own.
pub(super) fn with_attention(attention: AttentionSpec) -> LayerKindSpec {
    LayerKindSpec { attention: Some(attention), ..LayerKindSpec::default() }
}

/// A kind of layer by its mixer and its MLP.
pub(super) fn mixed(mixer: Mixer) -> LayerKindSpec {
    LayerKindSpec { mixer: Some(mixer), ..LayerKindSpec::default() }
}

/// The model with layers of two kinds: the second where `is` says so of a layer, counted from 0.
pub(super) fn with_two(
    m: ModelSpec,
    kinds: [(&'static str, LayerKindSpec); 2],
    is: impl Fn(u64) -> bool,
) -> ModelSpec {
    let names = [kinds[0].0, kinds[1].0];
    with_kinds((0..m.layers).map(|i| names[usize::from(is(i))]), kinds, m)
}

/// The model with layers of two kinds, each with a dense MLP and with experts: `is` says of a layer whether it is the
/// second, and whether it has experts. The names: of the first kind, then of the second.
pub(super) fn crossed(
    m: ModelSpec,
    names: [&'static str; 4],
    kinds: [LayerKindSpec; 2],
    is: impl Fn(u64) -> [bool; 2],
) -> ModelSpec {
    let at = |i: u64| is(i).into_iter().fold(0, |at, is| 2 * at + usize::from(is));
    let [first, second] = kinds;
    let with = |kind: &LayerKindSpec, mlp| LayerKindSpec { mlp: Some(mlp), ..kind.clone() };
    let all = [&first, &second]
        .into_iter()
        .flat_map(|kind| [MlpKind::Dense, MlpKind::Experts].map(|mlp| with(kind, mlp)));
    with_kinds((0..m.layers).map(|i| names[at(i)]), names.into_iter().zip(all.collect::<Vec<_>>()), m)
}

pub(super) fn mixer_and_mlp(mixer: Mixer, mlp: MlpKind) -> LayerKindSpec {
    LayerKindSpec { mixer: Some(mixer), mlp: Some(mlp), ..LayerKindSpec::default() }
}

/// A model whose layers are of these kinds, named in their order; the shortest pattern that repeats is kept. One kind
/// is no kind.
pub(super) fn with_kinds(
    layers: impl Iterator<Item = &'static str>,
    kinds: impl IntoIterator<Item = (&'static str, LayerKindSpec)>,
    model: ModelSpec,
) -> ModelSpec {
    let layers: Vec<&str> = layers.collect();
    let period = (1..=layers.len()).find(|&p| (0..layers.len()).all(|i| layers[i] == layers[i % p]));
    let mut pattern: Vec<LayerRun> = Vec::new();
    for name in &layers[..period.unwrap_or(0)] {
        match pattern.last_mut() {
            Some(run) if run.0 == *name => run.1 += 1,
            _ => pattern.push(LayerRun((*name).to_owned(), 1)),
        }
    }
    let used = |name: &str| layers.contains(&name);
    let kinds = kinds.into_iter().filter(|(name, _)| used(name));
    let layer_kinds = kinds.map(|(name, kind)| (name.to_owned(), kind)).collect();
    ModelSpec { layer_kinds, layer_pattern: pattern, ..model }
}
