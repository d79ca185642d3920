package adopt

const controllersName = "certplane-controllers"
