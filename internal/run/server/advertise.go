package server

import (
	"context"
	"fmt"
	"net/netip"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apiserver/advertise"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// newAdvertiser returns what keeps the Service default/kubernetes with the
// server's own rights. Every server does so, whichever of them runs the
// controllers.
func newAdvertiser(endpoint netip.AddrPort, asServer *rest.Config, store *store) (advertise.Keeper, error) {
	services, err := corev1client.NewForConfig(asServer)
	if err != nil {
		return advertise.Keeper{}, fmt.Errorf("making the client of Service default/%s: %w", advertise.Name, err)
	}
	keeper := advertise.Keeper{Services: services, Endpoint: endpoint}
	if store.backend.Shared {
		keeper.Members = &advertise.Members{Client: store.client, Prefix: store.backend.Prefix + storerecord.OwnKeys + "servers/"}
	}
	return keeper, nil
}

// alongside starts run, and returns a function that ends run and waits for it.
func alongside(ctx context.Context, run func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
