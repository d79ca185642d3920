package core

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/certplane/certplane/internal/api/core"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// services describes Service. Services are records: they define the names of
// the pods that they select. certplane routes no traffic through them, so they
// have no addresses unless a client sets them.
func services() kind.Kind[corev1.Service, corev1.ServiceList] {
	return kind.Kind[corev1.Service, corev1.ServiceList]{
		Version: corev1.SchemeGroupVersion, Plural: "services", Singular: "service",
		ShortNames: []string{"svc"}, Categories: []string{"all"},
		Namespaced: true, PutCreates: true, ShowsDeleted: true,
		PrepareCreate: func(service *corev1.Service) {
			service.Status = corev1.ServiceStatus{}
			core.SyncClusterIPs(service, nil)
		},
		Validate: core.ValidateService,
		Update: kind.Update[corev1.Service]{
			PrepareUpdate: func(service, old *corev1.Service) {
				service.Status = old.Status
				core.SyncClusterIPs(service, old)
			},
			ValidateUpdate: core.ValidateServiceUpdate,
			Resets:         []string{"status"},
		},
		Subresources: map[string]kind.Update[corev1.Service]{
			"status": {
				PrepareUpdate:  func(service, old *corev1.Service) { service.Spec = old.Spec },
				ValidateUpdate: core.ValidateServiceStatusUpdate,
				Resets:         []string{"spec"},
			},
		},
		Fields: core.ServiceFields,
		Table:  serviceTable(),
	}
}

func serviceTable() kind.Table[corev1.Service] {
	spec := corev1.ServiceSpec{}.SwaggerDoc()
	return kind.Table[corev1.Service]{
		Columns: []metav1.TableColumnDefinition{
			kind.Name(),
			kind.Column("Type", spec["type"]),
			kind.Column("Cluster-IP", spec["clusterIP"]),
			kind.Column("External-IP", spec["externalIPs"]),
			kind.Column("Port(s)", spec["ports"]),
			kind.AgeColumn(),
			kind.Wide("Selector", spec["selector"]),
		},
		Cells: func(service *corev1.Service, now time.Time) []any {
			return []any{
				service.Name, string(service.Spec.Type), orNone(service.Spec.ClusterIP), externalCell(service), portsCell(service.Spec.Ports),
				kind.Age(service.CreationTimestamp, now), labels.FormatLabels(service.Spec.Selector),
			}
		},
	}
}

// externalCell returns the external name or the external addresses of a
// service.
func externalCell(service *corev1.Service) string {
	addresses := strings.Join(service.Spec.ExternalIPs, ",")
	switch service.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return service.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var found []string
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			found = append(found, ingress.IP+ingress.Hostname) // one of them is empty
		}
		found = append(found, service.Spec.ExternalIPs...)
		if len(found) == 0 {
			return "<pending>"
		}
		return strings.Join(found, ",")
	default:
		return orNone(addresses)
	}
}

func portsCell(ports []corev1.ServicePort) string {
	var out []string
	for _, port := range ports {
		number := fmt.Sprint(port.Port)
		if port.NodePort != 0 {
			number = fmt.Sprintf("%d:%d", port.Port, port.NodePort)
		}
		out = append(out, fmt.Sprintf("%s/%s", number, port.Protocol))
	}
	return orNone(strings.Join(out, ","))
}
