// Package cm2 reads conversations with checklists in the form of CM2's data, which
// EnvACE was trained on: each row is a reference conversation with tools, and for
// each turn of its user the criteria by which a judge grades what a policy does
// instead. Two layouts of a row are read, that of the labelling and that of the
// training:
//
//	{"uuid", "messages": [...], "tools": [...], "checklists": [[[item]]]}
//	{"messages": [first], "extra_info": {"original_index", "messages": [...], "tools": "[...]",
//	 "interaction_kwargs": {"checklist_list": [[[item]]]}}}
//
// A file holds them as JSON Lines, as one list, or as {"data": [...]}. What is wrong
// with a row is a [Fault] with its line and what to do about it; the other rows are
// read all the same, and the caller decides whether to go on without it.
package cm2
