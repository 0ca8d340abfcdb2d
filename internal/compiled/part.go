package compiled

// TakesPart reports whether the route's model takes parts of a media type.
func (r *Route) TakesPart(mediaType string) bool {
	p, ok := r.Port.(interface{ TakesPart(mediaType string) bool })
	return ok && p.TakesPart(mediaType)
}
