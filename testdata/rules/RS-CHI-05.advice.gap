There is a gap between two parts, of which the index says nothing.
also: RS-CHI-03.warning
in: rs/maps/capabilitylist.xml
- <url><loc>https://lib.example.net/rs/maps/changedump.xml</loc><rs:md capability="changedump"/></url>
- 
+ 
in: rs/maps/changelist.xml
- <rs:md from="2024-04-01T00:00:00Z" until="2024-05-01T00:00:00Z"/></sitemap>
- <sitemap><loc>https://lib.example.net/rs/maps/changes-2.xml</loc><rs:md from="2024-05-01T00:00:00Z"/>
+ </sitemap>
+ <sitemap><loc>https://lib.example.net/rs/maps/changes-2.xml</loc>
in: rs/maps/changes-2.xml
- from="2024-05-01T00:00:00Z"
+ from="2024-05-01T00:30:00Z"
