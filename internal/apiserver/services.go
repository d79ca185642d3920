package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/webhook"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// lookupTimeout bounds how long a webhook waits for its Service to be read.
const lookupTimeout = 5 * time.Second

// services finds webhooks that are named by a Service. It is called for each
// new connection, not for each call. TLS verifies NAME.NAMESPACE.svc, whatever
// the address.
type services struct{ client corev1client.ServicesGetter }

var _ webhook.ServiceResolver = services{}

// ResolveEndpoint implements webhook.ServiceResolver.
func (s services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	service, err := s.client.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	var host string
	switch {
	case apierrors.IsNotFound(err):
		err = errors.New("it does not exist; create it, or set clientConfig.url instead of clientConfig.service")
	case err == nil:
		host, err = reachable(service, port)
	}
	if err != nil {
		return nil, fmt.Errorf("finding service %q in namespace %q: %w", name, namespace, err)
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}, nil
}

// reachable returns a host that accepts connections to a port of service.
// Addresses for clients outside of a cluster come before the cluster IP, which
// needs a network that routes it.
func reachable(service *corev1.Service, port int32) (string, error) {
	spec := &service.Spec
	if spec.Type == corev1.ServiceTypeExternalName { // as in Kubernetes, its ports do not matter
		return strings.TrimSuffix(spec.ExternalName, "."), nil
	}
	if !hasPort(spec.Ports, port) {
		return "", fmt.Errorf("spec.ports has no TCP port %d; add it, or set clientConfig.service.port", port)
	}
	hosts := slices.Clone(spec.ExternalIPs)
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		hosts = append(hosts, ingress.IP, ingress.Hostname)
	}
	if spec.ClusterIP != corev1.ClusterIPNone {
		hosts = append(hosts, spec.ClusterIP)
	}
	hosts = slices.DeleteFunc(hosts, func(host string) bool { return host == "" })
	if len(hosts) == 0 {
		return "", errors.New("it has no address that this server can connect to: set spec.externalIPs, or spec.type ExternalName and spec.externalName; " +
			"or set clientConfig.url instead of clientConfig.service")
	}
	return hosts[0], nil
}

func hasPort(ports []corev1.ServicePort, number int32) bool {
	return slices.ContainsFunc(ports, func(port corev1.ServicePort) bool {
		return port.Port == number && port.Protocol == corev1.ProtocolTCP
	})
}
