package host

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// An admin makes, sees and revokes tokens of the own tenant. What a token may do, its
// maker may: it has no scope that the maker lacks, and is for another user only if the
// maker acts for all of them. It outlives its maker, as keys of a service outlive the
// person who made them; a revocation can take it along.

// tokenLife is how long a token is good for unless something else is said, in seconds.
const tokenLife = 90 * 24 * 60 * 60

// tokenGrace is how long a token that was replaced stays good unless something else is said.
const tokenGrace = 24 * time.Hour

// tokenSpec is the wish for a token.
type tokenSpec struct {
	User    string   `json:"user,omitempty" maxLength:"256" doc:"of the tenant, as X-Stile-User names one; the caller when it is left out, another one needs the scope users"`
	Scopes  []string `json:"scopes" minItems:"1" maxItems:"16" doc:"none that the caller lacks"`
	Note    string   `json:"note,omitempty" maxLength:"256" doc:"what it is for, as lists show it"`
	Seconds *int64   `json:"expires_in_s,omitempty" minimum:"0" maximum:"3153600000" doc:"how long it is good for; 0 is for ever, and nothing 90 days"`
}

// tokenView is a token in a list. No secret comes of it.
type tokenView struct {
	ID      string     `json:"id"`
	Tenant  string     `json:"tenant"`
	User    string     `json:"user"`
	Scopes  []string   `json:"scopes"`
	State   string     `json:"state" enum:"good,expired,revoked"`
	Note    string     `json:"note,omitempty"`
	Maker   string     `json:"maker,omitempty" doc:"id of the token that made it; absent: the command"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty" doc:"absent: never"`
	Revoked *time.Time `json:"revoked,omitempty"`
}

type madeToken struct {
	tokenView
	Secret string `json:"secret" doc:"what its holder shows; it is told this once"`
}

// rotation is the wish for a token in the place of another one.
type rotation struct {
	Grace   *int64 `json:"grace_s,omitempty" minimum:"0" maximum:"3153600000" doc:"how long the old one stays good at most; 0 revokes it, and nothing is a day"`
	Seconds *int64 `json:"expires_in_s,omitempty" minimum:"0" maximum:"3153600000" doc:"how long the new one is good; 0 is for ever, and nothing as long as the old one was"`
}

type rotatedToken struct {
	Token madeToken `json:"token"`
	Old   tokenView `json:"old" doc:"the one that it replaces"`
}

type revokedTokens struct {
	Revoked []tokenView `json:"revoked" doc:"the token, and what it took along"`
	Left    []tokenView `json:"left" doc:"what it made that stays good"`
}

type tokenList struct {
	Tokens []tokenView `json:"tokens"`
	Next   string      `json:"next,omitempty" doc:"pass it as after for the next page"`
}

func (s *Server) tokenRoutes() {
	type makeIn struct{ Body tokenSpec }
	route(s, asks(access.Admin, post("create-token", "/v1/tokens", "Make a token of the caller's tenant", http.StatusCreated, "tokens")),
		func(ctx context.Context, in *makeIn) (*answered[madeToken], error) {
			kept, err := s.kept()
			if err != nil {
				return nil, err
			}
			wish, err := s.wish(ctx, &in.Body, kept.Now())
			if err != nil {
				return nil, err
			}
			secret, tok, err := kept.Create(wish)
			if full := (*messages.Error)(nil); errors.As(err, &full) && full.Reason == access.ReasonTokens {
				return nil, tooMuch(http.StatusTooManyRequests, full.Code, full.Reason, full.Detail, time.Minute)
			}
			if err != nil {
				return nil, err
			}
			trailOf(ctx).noting("token " + tok.ID + " " + tok.Grant())
			return &answered[madeToken]{Body: madeToken{tokenView: viewOfToken(&tok, kept.Now()), Secret: secret}}, nil
		})
	type rotateIn struct {
		Token string `path:"token" maxLength:"64" doc:"the id"`
		Body  rotation
	}
	route(s, asks(access.Admin, post("rotate-token", "/v1/tokens/{token}/rotate", "Make a token in the place of another one, which stays good for a while", http.StatusCreated, "tokens")),
		func(ctx context.Context, in *rotateIn) (*answered[rotatedToken], error) {
			kept, err := s.kept()
			if err != nil {
				return nil, err
			}
			p := s.principal(ctx)
			r := access.Rotation{ID: in.Token, Tenant: p.tenant, Maker: p.identity.Token, Grace: tokenGrace, May: func(old access.Token) error {
				spec := tokenSpec{User: old.User}
				for _, scope := range old.Scopes {
					spec.Scopes = append(spec.Scopes, string(scope))
				}
				_, err := s.wish(ctx, &spec, kept.Now())
				return err
			}}
			if in.Body.Grace != nil {
				r.Grace = time.Duration(*in.Body.Grace) * time.Second
			}
			if in.Body.Seconds != nil {
				life := time.Duration(*in.Body.Seconds) * time.Second
				r.Life = &life
			}
			secret, tok, old, err := kept.Rotate(r)
			if full := (*messages.Error)(nil); errors.As(err, &full) && full.Reason == access.ReasonTokens {
				return nil, tooMuch(http.StatusTooManyRequests, full.Code, full.Reason, full.Detail, time.Minute)
			}
			if err != nil {
				return nil, err
			}
			trailOf(ctx).noting("token " + tok.ID + " " + tok.Grant() + ", for " + old.ID)
			return &answered[rotatedToken]{Body: rotatedToken{Token: madeToken{tokenView: viewOfToken(&tok, kept.Now()), Secret: secret}, Old: viewOfToken(&old, kept.Now())}}, nil
		})
	type listIn struct {
		After string `query:"after" maxLength:"64" doc:"the last id of the page before"`
		Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	}
	route(s, asks(access.Admin, get("list-tokens", "/v1/tokens", "The tokens of the caller's tenant, as they were made", "tokens")),
		func(ctx context.Context, in *listIn) (*answered[tokenList], error) {
			kept, err := s.kept()
			if err != nil {
				return nil, err
			}
			all, err := kept.List()
			if err != nil {
				return nil, err
			}
			tenant := s.principal(ctx).tenant
			all = slices.DeleteFunc(all, func(tok access.Token) bool { return tok.Tenant != tenant })
			if in.After != "" {
				i := slices.IndexFunc(all, func(tok access.Token) bool { return tok.ID == in.After })
				if i < 0 {
					return nil, refusalOf(messages.ErrInvalid, "after", "is no id of a token")
				}
				all = all[i+1:]
			}
			var out answered[tokenList]
			if len(all) > in.Limit {
				all = all[:in.Limit]
				out.Body.Next = all[in.Limit-1].ID
			}
			out.Body.Tokens = viewsOf(all, kept.Now())
			return &out, nil
		})
	op := huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: "/v1/tokens/{token}", Summary: "Refuse a token from now on", Tags: []string{"tokens"},
		Description: "Streams that it opened end within 15 seconds. It stays in the list.",
	}
	type tokenIn struct {
		Token    string `path:"token" maxLength:"64" doc:"the id"`
		WithMade bool   `query:"with_made" doc:"and all that it made, and that those made"`
	}
	route(s, asks(access.Admin, op), func(ctx context.Context, in *tokenIn) (*answered[revokedTokens], error) {
		kept, err := s.kept()
		if err != nil {
			return nil, err
		}
		gone, left, err := kept.Revoke(access.Revocation{ID: in.Token, Tenant: s.principal(ctx).tenant, WithMade: in.WithMade})
		if err != nil {
			return nil, err
		}
		trailOf(ctx).noting("token " + strings.Join(idsOf(gone), ", "))
		return &answered[revokedTokens]{Body: revokedTokens{Revoked: viewsOf(gone, kept.Now()), Left: viewsOf(left, kept.Now())}}, nil
	})
}

// kept is the file of tokens, if callers are told apart by one.
func (s *Server) kept() (*access.Tokens, error) {
	if k := access.Kept(s.cfg.Access); k != nil {
		return k, nil
	}
	return nil, refusal(http.StatusConflict, messages.ErrConfig, "", "this host keeps no tokens: stile tokens create makes the first, and from the next start on callers show one")
}

// wish is the token that the caller may make at a time.
func (s *Server) wish(ctx context.Context, in *tokenSpec, now time.Time) (w access.Wish, err error) {
	p := s.principal(ctx)
	w = access.Wish{Tenant: p.tenant, User: p.user, Scopes: in.Scopes, Note: in.Note, Maker: p.identity.Token}
	if in.User != "" {
		w.User = access.Part(in.User)
	}
	if w.User != p.identity.User && !p.identity.May(access.Users) {
		return w, access.Denied(access.ReasonScope, "the token lacks the scope users, and makes tokens for no other user than its own")
	}
	scopes, err := access.ParseScopes(in.Scopes)
	if err != nil {
		return w, err
	}
	for _, scope := range scopes {
		if !p.identity.May(scope) {
			return w, access.Denied(access.ReasonScope, "the token lacks the scope "+string(scope)+", and makes none that has it")
		}
	}
	life := int64(tokenLife)
	if in.Seconds != nil {
		life = *in.Seconds
	}
	if life > 0 {
		w.Expires = now.Add(time.Duration(life) * time.Second).Truncate(time.Second)
	}
	return w, nil
}

func viewOfToken(tok *access.Token, now time.Time) tokenView {
	v := tokenView{ID: tok.ID, Tenant: tok.Tenant, User: tok.User, State: tok.State(now), Note: tok.Note, Maker: tok.Maker, Created: tok.Created}
	for _, scope := range tok.Scopes {
		v.Scopes = append(v.Scopes, string(scope))
	}
	if !tok.Expires.IsZero() {
		v.Expires = &tok.Expires
	}
	if !tok.Revoked.IsZero() {
		v.Revoked = &tok.Revoked
	}
	return v
}

func viewsOf(all []access.Token, now time.Time) []tokenView {
	views := make([]tokenView, len(all))
	for i := range all {
		views[i] = viewOfToken(&all[i], now)
	}
	return views
}

func idsOf(all []access.Token) (ids []string) {
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	return ids
}
