// Package vault implements the issuers that sign by a Vault server.
package vault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
)

// Type is the type of issuers with spec.vault.
var Type = issuing.Type{
	Name:      certmanager.TypeVault,
	Component: "cert-manager-certificaterequests-issuer-vault",
}

// New returns the backend of the issuers. All backends of a process share one
// pool. The client in cfg needs create on
// tokens of the service accounts that issuers name, which their users grant.
func New(cfg issuing.Config, pool *vault.Pool) issuing.Backend {
	return &backend{Config: cfg, pool: pool, failing: failing{since: map[types.UID]time.Time{}}}
}

type backend struct {
	issuing.Config
	pool    *vault.Pool
	failing failing
}

// Changes notifies of servers that stop answering, or answer again. It is for
// issuing.Config.
func Changes(pool *vault.Pool) func(changed func(issuing.Reference)) (cancel func()) {
	return func(changed func(issuing.Reference)) (cancel func()) {
		return pool.Subscribe(func(s vault.Server) { changed(serverReference(s)) })
	}
}

// serverReference is the address of a server among the Needs of issuers.
func serverReference(s vault.Server) issuing.Reference {
	return issuing.Reference{
		Kind:           schema.GroupKind{Group: "vault", Kind: "Server"},
		NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: s.URL},
	}
}

// Needs returns the Secrets of an issuer and its server, for any request.
func (b *backend) Needs(of cmv1.GenericIssuer, _ issuing.Request) []issuing.Reference {
	namespace := certmanager.SecretNamespace(of, b.ClusterResources)
	spec := of.GetSpec().Vault
	if spec == nil {
		return nil
	}
	needs := []issuing.Reference{serverReference(vault.Server{Namespace: namespace, URL: spec.Server})}
	for _, name := range secretsOf(spec) {
		if name != "" {
			needs = append(needs, issuing.Secret(types.NamespacedName{Namespace: namespace, Name: name}))
		}
	}
	return needs
}

// Revoke implements issuing.Revoker. Vault has no reasons.
func (b *backend) Revoke(ctx context.Context, of cmv1.GenericIssuer, cert issuing.Revoked) error {
	if problem := problemOf(of.GetSpec().Vault); problem != "" {
		return errors.New(problem)
	}
	i := b.issuerOf(of)
	if err := b.pool.Revoke(ctx, i, b.accessOf(i), cert.Serial); err != nil {
		return errors.New(vault.Text(err))
	}
	return nil
}

// failing remembers since when the servers of issuers have not answered. It is
// safe for concurrent use.
type failing struct {
	mu    sync.Mutex
	since map[types.UID]time.Time // mu guards it
}

// maxFailing limits how many issuers are remembered; beyond it they are
// forgotten.
const maxFailing = 10_000

// begin returns since when an issuer has been failing, at the latest now.
func (f *failing) begin(uid types.UID, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if since, ok := f.since[uid]; ok {
		return since
	}
	if len(f.since) >= maxFailing {
		clear(f.since)
	}
	f.since[uid] = now
	return now
}

func (f *failing) end(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.since, uid)
}

// roleToGrant describes the role that lets an account of this program get tokens of a
// service account.
func roleToGrant(namespace, name string) string {
	return fmt.Sprintf("grant this by a Role in namespace %s with the rule {apiGroups: [\"\"], resources: [serviceaccounts/token], resourceNames: [%s], verbs: [create]}, "+
		"bound to that user", namespace, name)
}
