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
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/acme"
	"github.com/certplane/certplane/internal/issuing/ca"
	"github.com/certplane/certplane/internal/issuing/selfsigned"
	"github.com/certplane/certplane/internal/issuing/signer"
	vaultclient "github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/issuing/vault"
)

// Table lists types of issuers.
type Table []issuing.Type

// BuiltIn are the types whose issuers sign in every program.
var BuiltIn = Table{
	acme.Type,
	ca.Type,
	selfsigned.Type,
	vault.Type,
}

// Further is a type that only some programs have.
type Further struct {
	issuing.Type
	// New returns the backend of its issuers.
	New func(issuing.Config) issuing.Backend
	// Changes notifies of changes, as Others in issuing.Config.
	Changes func(changed func(issuing.Reference)) (cancel func())
}

// Config contains the dependencies of the backends of all types.
type Config struct {
	issuing.Config
	// Accounts holds the accounts of ACME issuers, ACME their settings; Answers and
	// CopiedAnnotations are as in acme.Config.
	Accounts          *account.Accounts
	ACME              acme.AccountSettings
	Answers           acme.Answers
	CopiedAnnotations func(annotations map[string]string) map[string]string
	// Vault holds the connections to Vault servers.
	Vault *vaultclient.Pool
	// Further are the types in addition to BuiltIn.
	Further []Further
}

// open returns the backend of a type. The name must be in BuiltIn.
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
	}
	panic("no backend for issuers of type " + string(name)) // a programming error
}

// The reasons of the Ready condition of issuers of other types.
const (
	// ReasonNotSupported: this program cannot speak to the servers of the type.
	ReasonNotSupported = "NotSupported"
	// ReasonTypeMissing: the spec has no type.
	ReasonTypeMissing = "IssuerTypeMissing"
)

// Find returns the type with this name; ok is false if it does not exist.
func (t Table) Find(name certmanager.IssuerType) (found issuing.Type, ok bool) {
	i := slices.IndexFunc(t, func(one issuing.Type) bool { return one.Name == name })
	if i < 0 {
		return issuing.Type{}, false
	}
	return t[i], true
}

// Has reports whether issuers of a type sign.
func (t Table) Has(name certmanager.IssuerType) bool {
	_, ok := t.Find(name)
	return ok
}

// Names returns a list of the names of the types, each after prefix, with word
// before the last one.
func (t Table) Names(prefix, word string) string {
	var names []string
	for _, one := range t {
		names = append(names, prefix+string(one.Name))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}

// Watches returns the kinds of objects, other than Secrets, that issuers can wait for.
func (t Table) Watches() []issuing.Watch {
	var all []issuing.Watch
	for _, one := range t {
		all = append(all, one.Watches...)
	}
	return all
}

// Issuers are the backends of all types of a program. They are safe for concurrent
// use.
type Issuers struct {
	Table
	backends map[certmanager.IssuerType]issuing.Backend
}

// New returns the backends of all types.
func New(cfg Config) Issuers {
	all := Issuers{Table: slices.Clone(BuiltIn), backends: map[certmanager.IssuerType]issuing.Backend{}}
	for _, t := range BuiltIn {
		all.backends[t.Name] = cfg.open(t.Name)
	}
	for _, t := range cfg.Further {
		all.Table = append(all.Table, t.Type)
		all.backends[t.Name] = t.New(cfg.Config)
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
		return issuing.NotReady(ReasonTypeMissing, "The issuer has no type: set %s", i.Names("spec.", "or")), nil
	case !ok:
		return issuing.NotReady(ReasonNotSupported, "Issuers of type %[1]s sign nothing here: this build of certplane does not support them. Build one that does with \"make %[1]s\" (docs/%[1]s.md), or use %[2]s, or an external issuer", t, i.Names("spec.", "or")), nil
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
	if found, _ := i.Find(t); issueoncreate.Is(ctx) && !found.InProcess {
		return nil, signer.Unavailable(errors.New("the request is not stored yet"))
	}
	return backend.Sign(ctx, by, req, now)
}

// Revoke lets the CA of an issuer revoke a certificate, as issuing.Revoker; ErrCannotRevoke is
// final too. elsewhere is false if the CA is in this process: then there is nobody to tell.
func (i Issuers) Revoke(ctx context.Context, of cmv1.GenericIssuer, cert issuing.Revoked) (elsewhere bool, err error) {
	t := certmanager.TypeOf(of.GetSpec())
	if found, _ := i.Find(t); found.InProcess {
		return false, nil
	}
	revoker, ok := i.backends[t].(issuing.Revoker)
	if !ok {
		return true, issuing.ErrCannotRevoke
	}
	return true, revoker.Revoke(ctx, of, cert)
}

// Needs returns the objects on which an answer of an issuer depends, or for the
// zero Request, its readiness.
func (i Issuers) Needs(of cmv1.GenericIssuer, req issuing.Request) []issuing.Reference {
	if backend, ok := i.backends[certmanager.TypeOf(of.GetSpec())]; ok {
		return backend.Needs(of, req)
	}
	return nil
}
