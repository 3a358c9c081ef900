// Package serve answers the OpenAI HTTP API with the built-in engine, so that any
// client can use a policy whose weights are here.
//
//	POST /v1/chat/completions   messages and tools in, text or tool calls out
//	POST /v1/completions        a raw prompt (text or token ids) in, text out
//	GET  /v1/models             the one model
//
// Understood beyond OpenAI's fields: top_k, min_p, ignore_eos, and
// return_token_ids, which adds prompt_token_ids and, to each choice, token_ids.
//
// A logprob is of the untruncated distribution at temperature 1. Beside it stand
// tempered (untruncated, at the request's temperature: what a trainer compares
// with) and drawn (of the distribution that the token was drawn from, after
// grammar, top_p, top_k and min_p).
//
// response_format json_schema, and tools, hold the text to the schema. A schema
// that cannot be kept is refused, but for the arguments of tools that are neither
// strict nor forced: theirs are free then, and a Warning header says so.
//
// Refused rather than ignored: images and audio, logit_bias, penalties, echo,
// best_of, suffix. What is asked for beyond the context is cut to it, a prompt
// that alone is beyond it is an error. A client that goes away cancels its
// request.
package serve
