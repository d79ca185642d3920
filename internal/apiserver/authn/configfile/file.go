// Package configfile applies an AuthenticationConfiguration file and its
// changes (KEP-3331).
package configfile

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/process/filewatch"
)

const (
	// healthTimeout is how long the issuers of a changed file may take to
	// become healthy before the file is applied again.
	healthTimeout = time.Minute
	// healthPoll is the interval in which they are checked until then.
	healthPoll = 100 * time.Millisecond
)

// Config has the path of the file and its context.
type Config struct {
	// Path is the path of the file.
	Path string
	// ServerID distinguishes servers in metrics.
	ServerID string
	// Audiences are the audiences of the API server.
	Audiences authenticator.Audiences
	// OwnIssuers are the issuers of service account tokens: the file must not
	// contain them.
	OwnIssuers []string
	// Anonymous lists the paths that need no credentials if the file does not
	// configure them.
	Anonymous []apiserver.AnonymousAuthCondition
}

// File is the configuration in force.
type File struct {
	cfg     Config
	opened  []byte
	current atomic.Pointer[state]
	changes *filewatch.Files
}

// state is the result of one content of the file.
type state struct {
	issuers   *issuers
	anonymous authenticator.Request
}

// Open reads the file and checks it.
func Open(cfg Config) (*File, error) {
	content, err := os.ReadFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	parsed, err := parse(content, cfg.OwnIssuers)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", cfg.Path, err)
	}
	f := &File{cfg: cfg, opened: content}
	f.changes = f.newChanges()
	// All issuers are unknown before Start.
	f.current.Store(&state{anonymous: f.anonymous(parsed)})
	return f, nil
}

// Start starts the issuers and watches the file for changes until ctx ends.
// Issuers that do not answer are retried until then.
func (f *File) Start(ctx context.Context) {
	f.load(ctx)
	go f.changes.Run(ctx, clock.RealClock{}, filewatch.ConfigEvery)
}

func (f *File) newChanges() *filewatch.Files {
	metrics.RegisterMetrics()
	metrics.RecordAuthenticationConfigLastConfigInfo(f.cfg.ServerID, string(f.opened))
	config := filewatch.Config{
		Path:  f.cfg.Path,
		What:  "authentication configuration",
		Apply: f.apply,
		Succeeded: func(content []byte) {
			metrics.RecordAuthenticationConfigAutomaticReloadSuccess(f.cfg.ServerID, string(content))
		},
		Failed: func() { metrics.RecordAuthenticationConfigAutomaticReloadFailure(f.cfg.ServerID) },
	}
	return config.Files()
}

func (f *File) load(ctx context.Context) {
	next, err := f.build(ctx, f.opened)
	if err != nil {
		f.changes.Failed(ctx, err)
		return
	}
	f.swap(next)
	f.changes.InUse(f.opened)
}

// AuthenticateToken accepts the tokens of the issuers in the file.
func (f *File) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if issuers := f.current.Load().issuers; issuers != nil {
		return issuers.tokens.AuthenticateToken(ctx, token)
	}
	return nil, false, nil
}

// AuthenticateRequest accepts requests without credentials where the file
// allows them.
func (f *File) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	return f.current.Load().anonymous.AuthenticateRequest(r)
}

// apply applies a changed content if it works.
func (f *File) apply(ctx context.Context, content []byte) error {
	next, err := f.build(ctx, content)
	if err != nil {
		return err
	}
	// Clients of issuers that stay must not be affected by the change.
	if err := next.issuers.wait(ctx); err != nil {
		next.issuers.stop()
		return err
	}
	f.swap(next)
	return nil
}

func (f *File) build(ctx context.Context, content []byte) (*state, error) {
	parsed, err := parse(content, f.cfg.OwnIssuers)
	if err != nil {
		return nil, err
	}
	issuers, err := newIssuers(ctx, parsed.JWT, f.cfg)
	if err != nil {
		return nil, err
	}
	return &state{issuers: issuers, anonymous: f.anonymous(parsed)}, nil
}

func (f *File) swap(next *state) {
	former := f.current.Swap(next)
	if former.issuers != nil {
		former.issuers.stop()
	}
}

func (f *File) anonymous(config *apiserver.AuthenticationConfiguration) authenticator.Request {
	switch {
	case config.Anonymous == nil:
		return anonymous.NewAuthenticator(f.cfg.Anonymous)
	case !config.Anonymous.Enabled:
		return noAuthentication
	}
	return anonymous.NewAuthenticator(config.Anonymous.Conditions)
}

var noAuthentication = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
	return nil, false, nil
})
