package acmeorders

import (
	"context"
	"sync"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/inprocess/loopback"
	"github.com/certplane/certplane/internal/process/account"
)

// identities caches clients that act as ServiceAccounts. It is safe for concurrent use.
type identities struct {
	own     *rest.Config
	options client.Options
	// connect makes a client.
	connect func(*rest.Config, client.Options) (client.Client, error)

	mu         sync.Mutex // guards all below
	namespaces map[string]*account.Accounts
	clients    map[v1alpha1.AcmeServiceAccount]client.Client
}

func newIdentities(own *rest.Config, options client.Options) *identities {
	return &identities{
		own: own, options: options, connect: inprocess.NewClient,
		namespaces: map[string]*account.Accounts{}, clients: map[v1alpha1.AcmeServiceAccount]client.Client{},
	}
}

// as returns a client that acts as a ServiceAccount. The first call requests its token, and
// fails if the account does not exist or the controller may not act as it.
func (i *identities) as(ctx context.Context, who v1alpha1.AcmeServiceAccount) (client.Client, error) {
	accounts, known, err := i.known(who)
	if known != nil || err != nil {
		return known, err
	}
	cfg, err := accounts.As(ctx, who.Name)
	if err != nil {
		return nil, err
	}
	made, err := i.connect(cfg, i.options)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.clients[who] = made
	return made, nil
}

func (i *identities) known(who v1alpha1.AcmeServiceAccount) (*account.Accounts, client.Client, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if made := i.clients[who]; made != nil {
		return nil, made, nil
	}
	if accounts := i.namespaces[who.Namespace]; accounts != nil {
		return accounts, nil, nil
	}
	cfg := account.Config{Client: i.own, Namespace: who.Namespace}
	if inside, ok := i.own.Transport.(*loopback.Transport); ok {
		cfg.Transport = inside
	}
	accounts, err := account.New(cfg)
	if err == nil {
		i.namespaces[who.Namespace] = accounts
	}
	return accounts, nil, err
}

// forget drops the client of a deleted ServiceAccount.
func (i *identities) forget(who v1alpha1.AcmeServiceAccount) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.clients, who)
	delete(i.namespaces, who.Namespace)
}
