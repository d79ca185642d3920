package acmeorders

import (
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// NewWith returns the controller, with another way to make the clients that act as
// ServiceAccounts.
func NewWith(mgr ctrl.Manager, cfg Config, connect func(*rest.Config, client.Options) (client.Client, error)) (manager.Runnable, error) {
	r, err := newReconciler(mgr, cfg)
	r.accounts.connect = connect
	return r, err
}
