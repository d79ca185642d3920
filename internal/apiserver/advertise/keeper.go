// Package advertise keeps the Service kubernetes in namespace default up to date with the
// addresses of the API.
//
// In Kubernetes, this Service has a cluster IP, which a proxy on each node routes to the API
// servers. Here no proxy does so: the Service is headless, and has the addresses and the port
// of the servers as its externalIPs and its port.
package advertise

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
)

const (
	// Name is the name of the Service, in namespace default.
	Name = "kubernetes"
	// interval is the time between two checks of the Service by a server. It must
	// fit into memberTTL several times.
	interval = 5 * time.Second
	// lookTimeout bounds one check.
	lookTimeout = 10 * time.Second
	// leaveTimeout bounds how long a stopping server takes to leave the members.
	leaveTimeout = 3 * time.Second
)

// Keeper writes the address of the API into the Service.
type Keeper struct {
	// Services need all rights to Services.
	Services corev1client.ServicesGetter
	// Endpoint is where this server is reached.
	Endpoint netip.AddrPort
	// Members are the servers that share the store. It is nil for a server that
	// has the store to itself.
	Members *Members
}

// Run keeps the Service up to date until ctx ends. Then it removes this server
// from it, unless it is the last one.
func (k Keeper) Run(ctx context.Context) {
	report := reporter{}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		err := k.keep(look)
		if ctx.Err() == nil {
			report.tell(ctx, err)
		}
	}, interval)
	if k.Members == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := k.leave(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Service kubernetes names this server until its lease ends", "endpoint", k.Endpoint)
	}
}

// keep checks and updates the Service once.
func (k Keeper) keep(ctx context.Context) error {
	endpoints := []netip.AddrPort{k.Endpoint}
	if k.Members != nil {
		var err error
		if endpoints, err = k.Members.Join(ctx, k.Endpoint); err != nil {
			return err
		}
	}
	return k.write(ctx, endpoints)
}

func (k Keeper) leave(ctx context.Context) error {
	others, err := k.Members.Leave(ctx)
	if err != nil || len(others) == 0 {
		return err
	}
	return k.write(ctx, others)
}

// write writes these endpoints into the Service. What another server or a user
// writes at the same time is corrected by the next check.
func (k Keeper) write(ctx context.Context, endpoints []netip.AddrPort) error {
	chosen, left := onePort(endpoints)
	services := k.Services.Services(metav1.NamespaceDefault)
	stored, err := services.Get(ctx, Name, metav1.GetOptions{})
	if err == nil && hasClusterIP(stored) { // it cannot be changed, and leads nowhere
		preconditions := metav1.Preconditions{UID: &stored.UID, ResourceVersion: &stored.ResourceVersion}
		if err = services.Delete(ctx, Name, metav1.DeleteOptions{Preconditions: &preconditions}); err == nil {
			err = apierrors.NewNotFound(corev1.Resource("services"), Name)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: Name}}
		apply(service, chosen)
		_, err = services.Create(ctx, service, metav1.CreateOptions{})
	case err == nil:
		service := stored.DeepCopy()
		if apply(service, chosen); !equality.Semantic.DeepEqual(service, stored) {
			_, err = services.Update(ctx, service, metav1.UpdateOptions{})
		}
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("writing Service %s/%s: %w", metav1.NamespaceDefault, Name, err)
	}
	if len(left) > 0 {
		return fmt.Errorf("the Service %s/%s has one port, %d, and cannot name %v: have all servers listen on the same port, or set serving.advertiseAddress",
			metav1.NamespaceDefault, Name, chosen[0].Port(), left)
	}
	return nil
}

func hasClusterIP(service *corev1.Service) bool {
	return service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone
}

// onePort splits endpoints into those with the port of the first one, and the rest: the
// ports of a Service apply to all of its addresses. All servers choose the same port.
func onePort(endpoints []netip.AddrPort) (chosen, left []netip.AddrPort) {
	endpoints = slices.Clone(endpoints)
	slices.SortFunc(endpoints, netip.AddrPort.Compare)
	for _, endpoint := range slices.Compact(endpoints) {
		if endpoint.Port() == endpoints[0].Port() {
			chosen = append(chosen, endpoint)
		} else {
			left = append(left, endpoint)
		}
	}
	return chosen, left
}

// apply sets the fields that the Service must have. Its labels are those that
// Kubernetes gives it.
func apply(service *corev1.Service, endpoints []netip.AddrPort) {
	metav1.SetMetaDataLabel(&service.ObjectMeta, "component", "apiserver")
	metav1.SetMetaDataLabel(&service.ObjectMeta, "provider", "kubernetes")
	spec := &service.Spec
	spec.Type, spec.ExternalName, spec.Selector = corev1.ServiceTypeClusterIP, "", nil
	spec.ClusterIP, spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	spec.ExternalIPs = nil
	for _, endpoint := range endpoints {
		spec.ExternalIPs = append(spec.ExternalIPs, endpoint.Addr().String())
	}
	port := int32(endpoints[0].Port())
	spec.Ports = []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port)}}
}

// reporter logs an error once, not each time that it occurs.
type reporter struct{ last string }

func (r *reporter) tell(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != r.last {
		klog.FromContext(ctx).Error(err, "Cannot update the Service with the addresses of the API")
	}
	r.last = text
}
