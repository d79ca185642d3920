package azuredns

import (
	"fmt"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
)

// cloud is where the APIs of one of Azure's clouds are.
type cloud struct {
	// login is the URL of Entra ID, with a slash at its end.
	login string
	// management is the URL of the Resource Manager.
	management string
	// audience is the audience of tokens.
	audience string
}

var (
	publicCloud = cloud{
		login: "https://login.microsoftonline.com/", management: "https://management.azure.com", audience: "https://management.core.windows.net/",
	}
	governmentCloud = cloud{
		login: "https://login.microsoftonline.us/", management: "https://management.usgovcloudapi.net", audience: "https://management.core.usgovcloudapi.net/",
	}
	chinaCloud = cloud{
		login: "https://login.chinacloudapi.cn/", management: "https://management.chinacloudapi.cn", audience: "https://management.core.chinacloudapi.cn/",
	}
)

// findCloud returns the cloud of a solver. The German one was closed in 2021:
// its name is still accepted by admission.
func findCloud(name acmev1.AzureDNSEnvironment) (cloud, error) {
	switch strings.ToUpper(string(name)) {
	case "", "AZURECLOUD", "AZUREPUBLICCLOUD":
		return publicCloud, nil
	case "AZUREUSGOVERNMENT", "AZUREUSGOVERNMENTCLOUD":
		return governmentCloud, nil
	case "AZURECHINACLOUD":
		return chinaCloud, nil
	}
	return cloud{}, fmt.Errorf("unknown cloud configuration name: %s", name)
}
