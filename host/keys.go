package host

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

func (s *Server) keyRoutes() {
	keys := asks(public, get("get-keys", "/v1/keys", "The public keys of receipts and tokens (JWKS)", "keys"))
	keys.Responses = s.jwksOut()
	route(s, keys, func(ctx context.Context, _ *struct{}) (*keysOut, error) {
		set, err := s.rt.PublicKeys()
		if s.rt.ReadOnly() { // those that the journal was signed with
			set, err = s.rt.Archive().PublicKeys(ctx)
		}
		if err != nil {
			return nil, err
		}
		doc, err := set.JWKS()
		return &keysOut{ContentType: "application/jwk-set+json", Body: doc}, err
	})
	rotate := asks(access.Operator, post("rotate-keys", "/v1/keys/rotate", "Replace the keys of the host, with grace for the old ones", http.StatusOK, "keys"))
	rotate.Description = "The new keys sign from ten seconds on. 409 within an hour of the rotation before."
	rotate.Responses = s.jwksOut()
	route(s, rotate, func(ctx context.Context, _ *struct{}) (*keysOut, error) {
		return s.rotateKeys(ctx)
	})
}

// jwksOut describes an answer that is a key set.
func (s *Server) jwksOut() map[string]*huma.Response {
	key := map[string]*huma.Schema{"kid": text(""), "kty": text(""), "alg": text(""), "use": text(""), "crv": text(""), "x": text("")}
	s.api.OpenAPI().Components.Schemas.Map()["KeySet"] = members(map[string]*huma.Schema{"keys": listOf(members(key, "kid", "kty"))}, "keys")
	return map[string]*huma.Response{"200": {Description: "OK", Content: content("application/jwk-set+json", ref("KeySet"))}}
}

type keysOut struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	Body        []byte
}

// rotationRest is the least time between two rotations by callers: the public half of every
// receipt key stays for ever, and a ring has room for so many.
const rotationRest = time.Hour

// rotateKeys rotates the keys, which are those of all tenants.
func (s *Server) rotateKeys(ctx context.Context) (*keysOut, error) {
	s.rotating.Lock()
	defer s.rotating.Unlock()
	for _, k := range s.rt.Keys().Set().Keys() {
		if at, retired := k.RetiredAt(); retired && s.now().Sub(time.Unix(at, 0)) < rotationRest {
			return nil, refusal(http.StatusConflict, messages.ErrConflict, "", "the keys were rotated less than an hour ago; stile keys rotate on the host has no such limit")
		}
	}
	if err := s.rt.RotateKeys(ctx, 0); err != nil {
		return nil, err
	}
	doc, err := s.rt.Keys().JWKS()
	trailOf(ctx).noting("keys rotated")
	return &keysOut{ContentType: "application/jwk-set+json", Body: doc}, err
}
