// The page `/docs`: the API's description, to read and to try out. From the gateway alone: nothing is asked of another host.
import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js'
import 'swagger-ui-dist/swagger-ui.css'

SwaggerUI({
  dom_id: '#reference',
  url: './openapi.json',
  deepLinking: true,
  // The default is a service elsewhere that is sent the description.
  validatorUrl: null,
  queryConfigEnabled: false,
})
