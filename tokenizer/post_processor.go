package tokenizer

import "maps"

// readPostProcessor reads which ids are added before and after those of a text.
func (r *jsonReader) readPostProcessor(v any, where string) {
	if v == nil {
		return
	}
	o := r.objectAt(v, where)
	switch kind := o.text("type"); kind {
	case "ByteLevel":
		o.ignore("add_prefix_space", "trim_offsets", "use_regex") // change offsets in the text, not ids
	case "RobertaProcessing", "BertProcessing":
		o.ignore("trim_offsets", "add_prefix_space")
		r.addAround([]int{r.namedID(o, "cls")}, []int{r.namedID(o, "sep")}, where)
	case "TemplateProcessing":
		r.readTemplate(o)
	case "Sequence":
		for i, sub := range o.list("processors") {
			r.readPostProcessor(sub, itemPath(o.pathOf("processors"), i))
		}
	default:
		r.unknownType(o, kind)
		return
	}
	o.close()
}

// addAround sets the ids before and after those of a text. A file with two post-processors
// that both add tokens is refused, because the tokenizers library gives it no meaning.
func (r *jsonReader) addAround(before, after []int, where string) {
	if len(r.out.before)+len(r.out.after) > 0 {
		r.addUnsupported(where, "a second post-processor that adds tokens")
		return
	}
	r.out.before, r.out.after = before, after
}

// namedID reads a pair of a token and its id.
func (r *jsonReader) namedID(o *fields, key string) int {
	pair := o.list(key)
	if len(pair) != 2 {
		r.addMalformed(o.pathOf(key), "a token and its id expected")
		return 0
	}
	if _, ok := pair[0].(string); !ok {
		r.addMalformed(itemPath(o.pathOf(key), 0), "a string expected, found %s", describeJSON(pair[0]))
	}
	return r.wholeNumberAt(pair[1], itemPath(o.pathOf(key), 1))
}

// readTemplate reads the template for one text, and ignores the one for pairs of texts.
func (r *jsonReader) readTemplate(o *fields) {
	o.ignore("pair")
	tokens := map[string][]int{}
	named := takeOr[map[string]any](o, "special_tokens", "an object")
	for name := range maps.Keys(named) {
		t := r.objectAt(named[name], joinPath(o.pathOf("special_tokens"), name))
		t.ignore("id", "tokens")
		for i, id := range t.list("ids") {
			tokens[name] = append(tokens[name], r.wholeNumberAt(id, itemPath(t.pathOf("ids"), i)))
		}
		t.close()
	}
	var around [2][]int
	side := 0
	for i, v := range o.list("single") {
		where := itemPath(o.pathOf("single"), i)
		piece := r.objectAt(v, where)
		if len(piece.m) != 1 {
			r.addMalformed(where, "one of Sequence and SpecialToken expected")
			continue
		}
		for kind, v := range piece.m {
			p := r.objectAt(v, joinPath(where, kind))
			id := p.text("id")
			p.ignore("type_id")
			p.close()
			switch {
			case kind == "Sequence" && id == "A" && side == 0:
				side = 1
			case kind == "Sequence":
				r.addUnsupported(where, "the text %s; a template for one text has A once", quotePiece(id))
			case kind != "SpecialToken":
				r.addUnsupported(where, "%s is none of Sequence, SpecialToken", quotePiece(kind))
			default:
				ids, ok := tokens[id]
				if !ok {
					r.addMalformed(where, "the token %s is not among special_tokens", quotePiece(id))
				}
				around[side] = append(around[side], ids...)
			}
		}
	}
	if side == 0 {
		r.addUnsupported(o.pathOf("single"), "a template without the text")
	}
	if len(around[0])+len(around[1]) > 0 {
		r.addAround(around[0], around[1], o.where)
	}
}
