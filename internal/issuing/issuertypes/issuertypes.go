// Package issuertypes has the table of the types of issuers, and calls the
// backend of an issuer's type.
package issuertypes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issueoncreate"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/acme"
	"github.com/certplane/certplane/internal/issuing/ca"
	"github.com/certplane/certplane/internal/issuing/selfsigned"
	"github.com/certplane/certplane/internal/issuing/vault"
	"github.com/certplane/certplane/internal/issuing/venafi"
	"github.com/certplane/certplane/internal/signer"
	vaultclient "github.com/certplane/certplane/internal/signer/vault"
	venaficlient "github.com/certplane/certplane/internal/signer/venafi"
)

// All are the types whose issuers sign in this process.
var All = all()

func all() []issuing.Type {
	types := []issuing.Type{
		acme.Type,
		ca.Type,
		selfsigned.Type,
		vault.Type,
	}
	if venaficlient.Built {
		types = append(types, venafi.Type)
	}
	return types
}

// Config has the dependencies of the backends of all types.
type Config struct {
	issuing.Config
	// Accounts has the accounts of ACME issuers, ACME their settings; Answers and
	// CopiedAnnotations are as in acme.Config.
	Accounts          *account.Accounts
	ACME              acme.AccountSettings
	Answers           acme.Answers
	CopiedAnnotations func(annotations map[string]string) map[string]string
	// Vault has the connections to Vault servers, Venafi what the backends of issuers
	// with spec.venafi share.
	Vault  *vaultclient.Pool
	Venafi *venafi.Shared
}

// open returns the backend of a type, whose name must be that of a row of All.
func (c Config) open(name certmanager.IssuerType) issuing.Backend {
	switch name {
	case acme.Type.Name:
		return acme.New(acme.Config{Config: c.Config, Accounts: c.Accounts, Settings: c.ACME, Answers: c.Answers, CopiedAnnotations: c.CopiedAnnotations})
	case ca.Type.Name:
		return ca.New(c.Config)
	case selfsigned.Type.Name:
		return selfsigned.New(c.Config)
	case vault.Type.Name:
		return vault.New(c.Config, c.Vault)
	case venafi.Type.Name:
		return venafi.New(c.Config, c.Venafi)
	}
	panic("no backend for issuers of type " + string(name)) // a programming error
}

// The reasons of the Ready condition of issuers of other types.
const (
	// ReasonNotSupported: this program was built without what the type needs. The
	// build tag that adds it has the name of the type.
	ReasonNotSupported = "NotSupported"
	// ReasonTypeMissing: the spec has no type.
	ReasonTypeMissing = "IssuerTypeMissing"
)

// Find returns the type with this name; ok is false if it does not exist.
func Find(name certmanager.IssuerType) (found issuing.Type, ok bool) {
	i := slices.IndexFunc(All, func(t issuing.Type) bool { return t.Name == name })
	if i < 0 {
		return issuing.Type{}, false
	}
	return All[i], true
}

// Sign reports whether issuers of a type sign in this process.
func Sign(name certmanager.IssuerType) bool {
	_, ok := Find(name)
	return ok
}

// Names returns a list of the names of the types, each after prefix, with word
// before the last one.
func Names(prefix, word string) string {
	var names []string
	for _, t := range All {
		names = append(names, prefix+string(t.Name))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}

// Watches returns the kinds of objects, besides Secrets, for which issuers can
// wait.
func Watches() []issuing.Watch {
	var all []issuing.Watch
	for _, t := range All {
		all = append(all, t.Watches...)
	}
	return all
}

// Issuers are the backends of all types. They are safe for concurrent use.
type Issuers struct {
	backends map[certmanager.IssuerType]issuing.Backend
}

// New returns the backends of all types.
func New(cfg Config) Issuers {
	all := Issuers{backends: map[certmanager.IssuerType]issuing.Backend{}}
	for _, t := range All {
		all.backends[t.Name] = cfg.open(t.Name)
	}
	return all
}

// Check returns the readiness of an issuer of any type. Its errors are
// temporary.
func (i Issuers) Check(ctx context.Context, of cmv1.GenericIssuer, now time.Time) (issuing.Ready, error) {
	t := certmanager.TypeOf(of.GetSpec())
	backend, ok := i.backends[t]
	switch {
	case t == certmanager.NoType:
		return issuing.NotReady(ReasonTypeMissing, "The issuer has no type: set %s", Names("spec.", "or")), nil
	case !ok:
		return issuing.NotReady(ReasonNotSupported, "Issuers of type %[1]s sign nothing here: this program was built without the tag %[1]s (go build -tags %[1]s ./cmd/certplane). Use %[2]s, or an external issuer", t, Names("spec.", "or")), nil
	}
	return backend.Check(ctx, of, now)
}

// Sign lets an issuer answer a request. Its errors are verdicts.
func (i Issuers) Sign(ctx context.Context, by cmv1.GenericIssuer, req issuing.Request, now time.Time) (*signer.Issued, error) {
	t := certmanager.TypeOf(by.GetSpec())
	backend, ok := i.backends[t]
	if !ok {
		return nil, signer.Unavailable(fmt.Errorf("issuers of type %q sign nothing", t))
	}
	if found, _ := Find(t); issueoncreate.Is(ctx) && !found.InProcess {
		return nil, signer.Unavailable(errors.New("the request is not stored yet"))
	}
	return backend.Sign(ctx, by, req, now)
}

// Needs returns the objects on which an answer of an issuer depends, or for the
// zero Request, its readiness.
func (i Issuers) Needs(of cmv1.GenericIssuer, req issuing.Request) []issuing.Reference {
	if backend, ok := i.backends[certmanager.TypeOf(of.GetSpec())]; ok {
		return backend.Needs(of, req)
	}
	return nil
}
