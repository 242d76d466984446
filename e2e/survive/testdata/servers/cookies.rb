# Prints what Rack reads. Run: apt-get install ruby-rack && ruby cookies.rb
require "json"
require "rack"

JSON.parse(File.read("cookies.json")).each do |line|
  puts JSON.generate([line, Rack::Utils.parse_cookies({ "HTTP_COOKIE" => line })["sid"]&.inspect])
end
