package restcall

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// earlyRenewal is how long before its end a token is replaced.
const earlyRenewal = time.Minute

// Token is a bearer token.
type Token struct {
	Value string
	// Lifetime is how long it is valid from now on.
	Lifetime time.Duration
}

// Bearer authorizes calls with tokens, which it fetches as needed. It is safe
// for concurrent use.
type Bearer struct {
	fetch func(ctx context.Context) (Token, error)
	now   func() time.Time

	mu    sync.Mutex
	value string    // guarded by mu
	until time.Time // guarded by mu
}

// NewBearer returns a Bearer with the function that fetches a token.
func NewBearer(fetch func(ctx context.Context) (Token, error), now func() time.Time) *Bearer {
	return &Bearer{fetch: fetch, now: now}
}

// Authorize adds a token to a request.
func (b *Bearer) Authorize(request *http.Request, _ []byte) error {
	token, err := b.token(request.Context())
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	return nil
}

func (b *Bearer) token(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now().Before(b.until) {
		return b.value, nil
	}
	token, err := b.fetch(ctx)
	switch {
	case err != nil:
		return "", err
	case token.Value == "":
		return "", errors.New("the answer has no access token")
	case CheckHeader(token.Value) != nil:
		return "", errors.New("the access token contains a control character")
	}
	b.value, b.until = token.Value, b.now().Add(token.Lifetime-earlyRenewal)
	return b.value, nil
}
