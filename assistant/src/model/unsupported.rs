//! Features that a model rejects, recognised from the provider's error. The request is repeated without the feature, and
//! later requests leave it out.

use super::error::ModelError;

/// A feature that some models reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unsupported {
    /// The temperature.
    Temperature,
    /// Tools.
    Tools,
    /// Images, in a prompt or in the result of a tool.
    Images,
    /// The images of this request: broken, too large, or in an unsupported format.
    TheseImages,
    /// Reasoning summaries. OpenAI sends them only to verified organisations.
    Thoughts,
}

/// Messages of providers for models that cannot call tools.
const NO_TOOLS: [&str; 5] = [
    "does not support tools",
    "does not support function calling",
    "does not support tool",
    "tools are not supported",
    "support tool use",
];
/// Messages for models that do not accept images, in lower case.
const NO_IMAGES: [&str; 8] = [
    "does not support image",
    "do not support image",
    "image input is not supported",
    "images are not supported",
    "image_url is only supported",
    "support image input",
    "missing data required for image input",
    "invalid content type. image_url",
];
/// Words in messages about an unsupported parameter.
const REFUSED: [&str; 6] =
    ["unsupported", "not support", "deprecated", "not allowed", "only the default", "not permitted"];

impl Unsupported {
    /// The feature that an error is about, if any.
    pub(super) fn from_error(error: &ModelError) -> Option<Self> {
        let (ModelError::Rejected { said, .. } | ModelError::ModelUnknown { said, .. }) = error else {
            return None;
        };
        let low = said.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| low.contains(words));
        if low.contains("temperature") && says(&REFUSED) {
            return Some(Self::Temperature);
        }
        if low.contains("reasoning summar") && (low.contains("verified") || says(&REFUSED)) {
            return Some(Self::Thoughts);
        }
        if says(&NO_IMAGES) {
            return Some(Self::Images);
        }
        if says(&NO_TOOLS) {
            return Some(Self::Tools);
        }
        // An image stays in the history, so a rejected one would fail every later turn of the session.
        low.contains("image").then_some(Self::TheseImages)
    }

    /// Whether later requests must leave it out too.
    pub(super) fn is_lasting(self) -> bool {
        match self {
            Self::Temperature | Self::Tools | Self::Images | Self::Thoughts => true,
            Self::TheseImages => false,
        }
    }

    /// The name for users.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::Tools => "tools",
            Self::Images => "images",
            Self::TheseImages => "images like these",
            Self::Thoughts => "reasoning summaries",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::ModelError;
    use super::Unsupported;

    #[test]
    fn unsupported_features_are_recognised() {
        let feature = |said: &str| {
            Unsupported::from_error(&ModelError::Rejected {
                provider: "p".to_owned(),
                status: 400,
                said: said.to_owned(),
            })
        };
        for said in [
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported.",
            "Unsupported parameter: 'temperature' is not supported with this model.",
            "`temperature` is deprecated for this model.",
        ] {
            assert_eq!(feature(said), Some(Unsupported::Temperature), "{said}");
        }
        let ollama = "registry.ollama.ai/library/llama3:latest does not support tools";
        for said in [ollama, "No endpoints found that support tool use."] {
            assert_eq!(feature(said), Some(Unsupported::Tools), "{said}");
        }
        for said in [
            "No endpoints found that support image input",
            "Invalid content type. image_url is only supported by certain models.",
            "This model does not support image input.",
        ] {
            assert_eq!(feature(said), Some(Unsupported::Images), "{said}");
        }
        for said in ["Could not process image", "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"] {
            assert_eq!(feature(said), Some(Unsupported::TheseImages), "{said}");
        }
        let unverified = "Your organization must be verified to generate reasoning summaries.";
        assert_eq!(feature(unverified), Some(Unsupported::Thoughts));
        assert_eq!(feature("temperature: range is 0 to 1"), None);
        assert_eq!(feature("Function tools with reasoning_effort are not supported for m"), None);
        let busy = ModelError::Server { provider: "p".to_owned(), status: None, said: ollama.to_owned() };
        assert_eq!(Unsupported::from_error(&busy), None);
    }
}
