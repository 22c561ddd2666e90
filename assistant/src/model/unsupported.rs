//! What a model turns out not to take: it says so when it is asked, is asked again without, and is not sent it again.

use super::error::ModelError;

/// Something that many models take and some refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unsupported {
    /// A temperature.
    Temperature,
    /// Tools.
    Tools,
    /// Images, in a prompt or in the result of a tool.
    Images,
    /// The images of this one request: broken, too large, or in a format that it does not know.
    TheseImages,
    /// The wish to see its thoughts. OpenAI shows them only to organisations that it has checked.
    Thoughts,
}

/// How providers say that a model cannot call tools.
const NO_TOOLS: [&str; 5] = [
    "does not support tools",
    "does not support function calling",
    "does not support tool",
    "tools are not supported",
    "support tool use",
];
/// How they say that a model does not see images. Matched in lower case.
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
/// How they say that they do not want something.
const REFUSED: [&str; 6] =
    ["unsupported", "not support", "deprecated", "not allowed", "only the default", "not permitted"];

impl Unsupported {
    /// What a refusal is about, if it is about one of these.
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
        // An image stays in the history: one that is refused would end every turn of the session from now on.
        low.contains("image").then_some(Self::TheseImages)
    }

    /// Whether the model will not take it the next time either.
    pub(super) fn is_lasting(self) -> bool {
        match self {
            Self::Temperature | Self::Tools | Self::Images | Self::Thoughts => true,
            Self::TheseImages => false,
        }
    }

    /// Its name for people.
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
    fn what_is_not_taken_is_told_from_other_refusals() {
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
