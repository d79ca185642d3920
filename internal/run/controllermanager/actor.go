package controllermanager

import (
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
)

// Actor is what one controller works with: its process, and access to the API
// with its account.
type Actor struct {
	Process
	// Account is the controller's service account.
	Account string
	// API is the configuration with which the account reaches the API.
	API *rest.Config
	// Client reads and writes as the account, past the cache.
	Client client.Client
	// Versions returns the resources of a version of the API. Every account may
	// read them.
	Versions worker.Lookup
	// Secrets notifies of changes of Secrets, if the account may watch them.
	Secrets *changewatch.Watcher
	// Recorder opens a recorder of Events in the name of a component, and
	// Events is the recorder of the account itself. Both are nil if the account
	// may not write Events.
	Recorder func(component string) events.EventRecorder
	Events   events.EventRecorder
}

// Actor returns the clients and caches of a controller that acts as this account.
func (p Process) Actor(account string) (Actor, error) {
	a := Actor{Process: p, Account: account}
	var err error
	if a.API, err = p.As(account); err != nil {
		return a, err
	}
	quiet := rest.CopyConfig(a.API)
	// The version of a kind is chosen deliberately, so a warning about it is
	// not news.
	quiet.WarningHandler = rest.NoWarnings{}
	if a.Client, err = inprocess.NewClient(quiet, client.Options{Scheme: p.Manager.GetScheme(), Mapper: p.Manager.GetRESTMapper()}); err != nil {
		return a, fmt.Errorf("making the client of %s: %w", account, err)
	}
	if p.OnCreate != nil {
		a.Client = issueoncreate.Client(a.Client, account)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(a.API)
	if err != nil {
		return a, fmt.Errorf("making the client for discovery: %w", err)
	}
	a.Versions = kinds.ServerResourcesForGroupVersionWithContext
	if a.Secrets, err = changewatch.New(a.API, changewatch.Secrets, ""); err != nil {
		return a, err
	}
	if !rights.WritesEvents(account) {
		return a, nil
	}
	if a.Recorder, err = p.recorders(a.API); err != nil {
		return a, err
	}
	a.Events = a.Recorder("certplane.dev/" + account)
	return a, nil
}

// NewCache returns the account's own cache, which runs with the manager. It is
// for objects that no other controller reads. Errors name them by of.
func (a Actor) NewCache(of string, options cache.Options) (cache.Cache, error) {
	return a.newCache(a.API, of, options)
}
