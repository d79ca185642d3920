package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyQuota limits the number of requests that a policy permits in any period of a given
// length. A request counts from the moment when its approval is written; a pod's request,
// which needs no approval, from just before its certificate is signed. An Allow policy
// counts the requests that it approves, a Limit all requests that it matches.
type PolicyQuota struct {
	// name is unique in the policy. Tests, exceptions and metrics refer to the
	// quota by it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// certificates is the maximum number of requests in a period.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Certificates int32 `json:"certificates"`
	// per is the length of the period, from 1m to 168h.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Per metav1.Duration `json:"per"`
	// by sets how requests are grouped: each Requester, Namespace, ServiceAccount, Node,
	// Pod or Signer has its own quota. Policy: all requests share one quota. The namespace,
	// service account or node is taken from the request, otherwise from its requester. A
	// request without one counts for its requester.
	By QuotaBy `json:"by"`
}

// QuotaBy is the grouping of requests for quotas.
//
// +kubebuilder:validation:Enum=Requester;Namespace;ServiceAccount;Node;Pod;Signer;Policy
type QuotaBy string

// Groupings of requests for quotas.
const (
	QuotaByRequester      QuotaBy = "Requester"
	QuotaByNamespace      QuotaBy = "Namespace"
	QuotaByServiceAccount QuotaBy = "ServiceAccount"
	QuotaByNode           QuotaBy = "Node"
	QuotaByPod            QuotaBy = "Pod"
	QuotaBySigner         QuotaBy = "Signer"
	QuotaByPolicy         QuotaBy = "Policy"
)

// DecisionQuota is the use of a quota at the time of a decision.
type DecisionQuota struct {
	// policy is the name of the policy, name the name of the quota.
	Policy string  `json:"policy"`
	Name   string  `json:"name"`
	By     QuotaBy `json:"by"`
	// key identifies the group to which the quota applies, such as the requester or the
	// namespace.
	//
	// +optional
	Key string `json:"key,omitempty"`
	// certificates and per are the limit that the policy sets.
	Certificates int32           `json:"certificates"`
	Per          metav1.Duration `json:"per"`
	// used is the number of requests that count.
	Used int32 `json:"used"`
	// counted is true if the request is, or was, one of them.
	//
	// +optional
	Counted bool `json:"counted,omitempty"`
	// again is when the quota next permits a request, if it is exhausted now.
	//
	// +optional
	Again *metav1.Time `json:"again,omitempty"`
}
