package compiled

// TakesPart reports whether the route's model takes parts of a media type.
func (r *Route) TakesPart(mediaType string) bool {
	p, ok := r.Port.(interface{ TakesPart(mediaType string) bool })
	return ok && p.TakesPart(mediaType)
}

// TalksParts reports whether the conversations of the route's model take parts: not every transport
// has a form for them.
func (r *Route) TalksParts() bool {
	p, ok := r.Port.(interface{ TalksParts() bool })
	return ok && p.TalksParts()
}

// TakesBack reports whether the conversations of the route's model take back what passes with a
// request (llm.Request.Passing).
func (r *Route) TakesBack() bool {
	p, ok := r.Port.(interface{ TakesBack() bool })
	return ok && p.TakesBack()
}
