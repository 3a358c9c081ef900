// Package tokenizer turns text into token ids and back: byte-level BPE as
// Hugging Face's tokenizer.json describes it, for the Qwen2/3, Llama 3, GPT-2 and
// SmolLM2 families, with the same ids as their Rust library. It also trains small
// vocabularies ([Train]) and writes them as tokenizer.json.
//
//	text ─► added tokens ─► NFC ─► added tokens ─► digits, pattern ─► BPE ─► ids
//	        (raw)                  (normalized)     (words)
//
// A tokenizer.json that asks for anything else (byte fallback, dropout, another
// pre-tokenizer) is refused with an error that names what is not supported; nothing
// is approximated. Four points in which people go wrong:
//
//   - Added tokens are matched in the text before anything else, special or not.
//     Text of users and tools may hold them; [Tokenizer.AppendParts] reads special
//     ones there as plain text.
//   - Text that is not valid UTF-8 is read as if each broken sequence were U+FFFD,
//     which is what the Rust library sees after a lossy conversion.
//   - A byte that the vocabulary lacks becomes its unk_token or, without one, is left
//     out, as in the Rust library. (SmolLM2 lacks 21 bytes, control characters and some
//     that are in no valid UTF-8.)
//   - A text's pieces do not always become the text's ids: tokens may span them.
//
// Truncation and padding settings are not applied. A [Tokenizer] is safe for use by
// many goroutines.
package tokenizer
